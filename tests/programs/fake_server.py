"""Something that is no Redis, or a Redis in trouble: fake_server.py MODE DIR

delay-MS:PORT passes everything on to a server on PORT, MS late, each way: also what a client that
has gone left behind. answer-late-MS:PORT the same, but at once on the way there. unknown-script says so
once, and nothing more; asked further, it writes DIR/asked-again.

Listens on DIR/socket and on a free port of 127.0.0.1, written to DIR/port once it is ready.
"""

import os
import queue
import selectors
import socket
import sys
import threading
import time

ANSWERS = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 what?\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "ok": b"+OK\r\n",
    "number": b":1\r\n",
    "nil": b"$-1\r\n",
    "empty-list": b"*0\r\n",
    "huge-string": b"$9999999999999\r\nx",
    "huge-list": b"*2147483647\r\n:1\r\n",
    "wide-list": b"*8\r\n" + (b"*1000000\r\n" + b"*0\r\n" * 1000000) * 8,
    "deep-list": b"*1\r\n" * 1000000,
    "negative": b"$-7\r\n",
    "half": b"*5\r\n$7\r\ngran",
    "strange-list": b"*2\r\n$4\r\nperh\x1b[2J\r\n:7\r\n"[:-6] + b"\r\n",
    "error": b"-ERR \x1b]0;owned\x07 no such thing\r\n",
    "unknown-script": b"-NOSCRIPT No matching script. Please use EVAL.\r\n",
    "denied": b"-DENIED Redis is running in protected mode\r\n",
}


def listeners(directory):
    over_path = socket.socket(socket.AF_UNIX)
    over_path.bind(os.path.join(directory, "socket"))
    over_tcp = socket.socket()
    over_tcp.bind(("127.0.0.1", 0))
    for one in (over_path, over_tcp):
        one.listen(100)
    return over_path, over_tcp


def pass_on(source, target, delay):
    """Every byte in its order, late, and the end as well."""
    line = queue.Queue()

    def send():
        while True:
            due, data = line.get()
            time.sleep(max(0, due - time.monotonic()))
            try:
                target.sendall(data) if data else target.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            if not data:
                return

    threading.Thread(target=send, daemon=True).start()
    while True:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        line.put((time.monotonic() + delay, data))
        if not data:
            return


def delay(peer, mode):
    kind, _, rest = mode.rpartition("-")
    late, port = rest.split(":")
    try:
        upstream = socket.create_connection(("127.0.0.1", int(port)))
    except OSError:  # it is dead for now
        peer.close()
        return
    there = 0 if kind == "answer-late" else int(late)
    for *pair, ms in ((peer, upstream, there), (upstream, peer, int(late))):
        threading.Thread(target=pass_on, args=(*pair, ms / 1000), daemon=True).start()


def main():
    mode, directory = sys.argv[1:]
    sockets = listeners(directory)
    port = os.path.join(directory, "port")
    with open(port + ".new", "w") as file:
        file.write(str(sockets[1].getsockname()[1]))
    os.rename(port + ".new", port)
    told = set()
    selector = selectors.DefaultSelector()
    for one in sockets:
        selector.register(one, selectors.EVENT_READ, "listener")
    while True:
        for event, _ in selector.select():
            if event.data == "listener":
                peer, _ = event.fileobj.accept()
                if mode.startswith(("delay-", "answer-late-")):
                    delay(peer, mode)
                    continue
                if mode == "close":
                    peer.close()
                    continue
                if mode == "ssh":
                    peer.sendall(ANSWERS[mode])
                selector.register(peer, selectors.EVENT_READ, "peer")
                continue
            try:
                data = event.fileobj.recv(65536)
                if data and mode == "close-late":
                    data = b""
                elif data and mode == "one-byte-and-close":
                    event.fileobj.sendall(b"*")
                    data = b""
                elif data and mode == "error-and-close":
                    event.fileobj.sendall(ANSWERS["error"])
                    data = b""
                elif data and event.fileobj in told:
                    open(os.path.join(directory, "asked-again"), "w").close()
                elif data and mode not in ("silent", "ssh"):
                    if mode == "unknown-script":
                        told.add(event.fileobj)
                    event.fileobj.sendall(ANSWERS[mode])
            except OSError:
                data = b""
            if not data:
                selector.unregister(event.fileobj)
                event.fileobj.close()


main()
