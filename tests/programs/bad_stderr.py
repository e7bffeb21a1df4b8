#!/usr/bin/python3
"""A stderr that nobody reads: bad_stderr.py KIND PATH READY makes it at PATH, then writes
READY. KIND is

    socket   a listening unix socket, from which nothing is ever read
    pipe     a pipe that is never read
    tty      a terminal that was stopped by Ctrl-S

bad_stderr.py into [full] SOCKET COMMAND... becomes COMMAND, with a connection to SOCKET as its stderr, full
at wish.
"""

import os
import signal
import socket
import sys
import termios


def become(words):
    full = words[0] == "full"
    path, *command = words[full:]
    out = socket.socket(socket.AF_UNIX)
    out.connect(path)
    if full:
        out.setblocking(False)
        try:
            while True:
                out.send(bytes(4096))
        except BlockingIOError:
            pass
        out.setblocking(True)
    os.dup2(out.fileno(), 2)
    os.execvp(command[0], command)


def make(kind, path):
    if kind == "socket":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(10)
        return listener
    if kind == "tty":
        ends = os.openpty()
        termios.tcflow(ends[1], termios.TCOOFF)
        os.symlink(os.ttyname(ends[1]), path)
        return ends
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)


if sys.argv[1] == "into":
    become(sys.argv[2:])
kept = make(sys.argv[1], sys.argv[2])
with open(sys.argv[3], "w", encoding="ascii") as file:
    file.write("ready\n")
signal.pause()
