"""Between dlock and its server: cutter.py LISTEN_SOCKET SERVER_SOCKET WORD [silent | SECONDS] (or ports)

Passes everything on, but the first answer that holds WORD: that one is lost, and the connection with
it; or, with `silent`, all that would come behind it. What was asked for has happened all the same.
With SECONDS no other connection is accepted for so long after that.
"""

import socket
import sys
import threading
import time

import endpoint

path, server, word, *how = sys.argv[1:]
silent = how == ["silent"]
away = float(how[0]) if how and not silent else 0
cut = threading.Event()


def pass_on(source, sink, answers):
    try:
        while data := source.recv(65536):
            if answers and word.encode() in data and not cut.is_set():
                cut.set()
                if silent:
                    return
                if away:
                    listener.shutdown(socket.SHUT_RDWR)
                break
            sink.sendall(data)
    except OSError:
        pass
    for one in (source, sink):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


listener = endpoint.listen(path)
while True:
    try:
        client, _ = listener.accept()
    except OSError:
        listener.close()
        time.sleep(away)
        listener = endpoint.listen(path)
        continue
    try:
        upstream = endpoint.connect(server)
    except OSError:
        client.close()
        continue
    for source, sink, answers in ((client, upstream, False), (upstream, client, True)):
        threading.Thread(target=pass_on, args=(source, sink, answers), daemon=True).start()
