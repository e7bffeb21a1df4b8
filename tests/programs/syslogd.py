#!/usr/bin/python3
"""What /dev/log is to be: syslogd.py SOCKET FILE writes each datagram it gets as a line to FILE."""

import socket
import sys

server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.bind(sys.argv[1])
with open(sys.argv[2], "ab", buffering=0) as log:
    while True:
        log.write(server.recv(65536).rstrip(b"\0\n").replace(b"\n", b"\\n") + b"\n")
