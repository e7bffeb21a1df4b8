#!/usr/bin/python3
"""A proxy that changes what it passes on: rewrite.py SOCKET SERVER RULE...

SOCKET is where it listens, a path or HOST:PORT; SERVER the unix socket behind it. A RULE is

    ask REGEX TEXT       what the client says; REGEX and TEXT of one length, as Redis counts bytes
    answer REGEX TEXT    what the server says
    clock SECONDS        the server's clock, as TIME tells it, is so far ahead
    delay SECONDS        each answer comes so much later
"""

import re
import socket
import sys
import threading
import time


def rules(words):
    words = iter(words)
    for kind in words:
        if kind in ("ask", "answer"):
            yield kind, re.compile(next(words).encode(), re.S), next(words).encode()
        else:
            yield kind, float(next(words)), None


RULES = list(rules(sys.argv[3:]))


def changed(direction, data):
    for kind, what, text in RULES:
        if kind == direction:
            data = what.sub(text, data)
        elif kind == "clock" and direction == "answer":
            data = re.sub(
                rb"^\*2\r\n\$10\r\n(\d{10})\r\n",
                lambda found: b"*2\r\n$10\r\n%d\r\n" % (int(found[1]) + what),
                data,
            )
        elif kind == "delay" and direction == "answer":
            time.sleep(what)
    return data


def pump(direction, source, target):
    try:
        while data := source.recv(1 << 20):
            target.sendall(changed(direction, data))
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main():
    if sys.argv[1].startswith("/"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(sys.argv[1])
        listener.listen(16)
    else:
        host, _, port = sys.argv[1].rpartition(":")
        listener = socket.create_server((host, int(port)))
    while True:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(sys.argv[2])
        for pair in (("ask", client, server), ("answer", server, client)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


main()
