#!/usr/bin/python3
"""A service manager's socket: notified.py SOCKET FILE writes each datagram it gets as a line to FILE:
the sender's pid, and what it said, with a | for each newline. @NAME is an abstract socket."""

import socket
import struct
import sys

path = sys.argv[1]
server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
server.bind("\0" + path[1:] if path.startswith("@") else path)
with open(sys.argv[2], "ab", buffering=0) as log:
    log.write(b"begun\n")
    while True:
        data, ancillary, _, _ = server.recvmsg(65536, 256)
        pid = struct.unpack("iII", ancillary[0][2][:12])[0]
        log.write(str(pid).encode() + b" " + data.replace(b"\n", b"|") + b"\n")
