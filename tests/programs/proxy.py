"""Between dlock and its server: proxy.py LISTEN_SOCKET SERVER_SOCKET LOG [SECONDS [BYTES]]

Passes everything on and writes a line into LOG for each connection ("connect"), each turn of the
conversation (">" when the client begins to speak, "<" when the server does), and its end ("end").
A round trip is a ">" that is followed by a "<". Each answer comes SECONDS late,
in pieces of so many BYTES if they are given, each as late.
"""

import os
import selectors
import socket
import sys
import time


def main():
    path, server, log_path = sys.argv[1:4]
    late = float(sys.argv[4]) if len(sys.argv) > 4 else 0
    piece = int(sys.argv[5]) if len(sys.argv) > 5 else 65536
    log = open(log_path, "a", buffering=1)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(100)
    os.rename(path + ".new", path)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    turns = {}  # a client's socket: who spoke last

    def end(client, upstream):
        for one in (client, upstream):
            selector.unregister(one)
            one.close()
        del turns[client]
        log.write("end\n")

    while True:
        for key, _ in selector.select():
            if key.data is None:
                client, _ = listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(server)
                turns[client] = None
                selector.register(client, selectors.EVENT_READ, (">", client, upstream))
                selector.register(upstream, selectors.EVENT_READ, ("<", client, upstream))
                log.write("connect\n")
                continue
            turn, client, upstream = key.data
            if client not in turns:
                continue
            try:
                data = key.fileobj.recv(piece if turn == "<" else 65536)
                if data:
                    if turns[client] != turn:
                        log.write(turn + "\n")
                        turns[client] = turn
                    if turn == "<":
                        time.sleep(late)
                    (upstream if turn == ">" else client).sendall(data)
            except OSError:
                data = b""
            if not data:
                end(client, upstream)


main()
