"""Where a program of the tests listens or connects: the path of a unix socket, or a port of 127.0.0.1."""

import os
import socket


def listen(address):
    if address.isdigit():
        listener = socket.create_server(("127.0.0.1", int(address)), backlog=100)
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address + ".new")
        listener.listen(100)
        os.rename(address + ".new", address)
    return listener


def connect(address):
    if address.isdigit():
        return socket.create_connection(("127.0.0.1", int(address)))
    upstream = socket.socket(socket.AF_UNIX)
    upstream.connect(address)
    return upstream
