"""Between dlock and its server: cutter.py LISTEN_SOCKET SERVER_SOCKET WORD [silent] (or ports)

Passes everything on, but the first answer that holds WORD: that one is lost, and the connection with
it; or, with `silent`, all that would come behind it. What was asked for has happened all the same.
"""

import socket
import sys
import threading

import endpoint

path, server, word, *silent = sys.argv[1:]
cut = threading.Event()


def pass_on(source, sink, answers):
    try:
        while data := source.recv(65536):
            if answers and word.encode() in data and not cut.is_set():
                cut.set()
                if silent:
                    return
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
    client, _ = listener.accept()
    upstream = endpoint.connect(server)
    for source, sink, answers in ((client, upstream, False), (upstream, client, True)):
        threading.Thread(target=pass_on, args=(source, sink, answers), daemon=True).start()
