#!/usr/bin/python3
"""A syslog daemon that hangs: deaf_syslogd.py dgram|stream SOCKET FILE binds SOCKET, which is full from
the start and never read, and then writes FILE."""

import signal
import socket
import sys

kind, path, ready = sys.argv[1:]
family = {"dgram": socket.SOCK_DGRAM, "stream": socket.SOCK_STREAM}[kind]
daemon = socket.socket(socket.AF_UNIX, family)
daemon.bind(path)
if kind == "stream":
    daemon.listen(0)
clients = []
try:
    while True:
        client = socket.socket(socket.AF_UNIX, family)
        client.setblocking(False)
        client.connect(path)  # a stream's queue is one of connections
        clients.append(client)
        while kind == "dgram":
            client.send(b"x")
except BlockingIOError:
    with open(ready, "w", encoding="ascii") as file:
        file.write("full\n")
signal.pause()
