#!/usr/bin/python3
"""Runs Python for tests with kazoo imported already, which takes longer than what they ask of it.

kazoo_server.py FILE writes its port into FILE. A connection sends a ZooKeeper's port, lines of Python, and a line
END. They run in a process of their own, with `zk` a client of that server. Back comes what they print, and
in a last line of its own their exit code.
"""

import os
import signal
import socket
import sys
import time  # noqa: F401: for what is run
import traceback

from kazoo.client import KazooClient


def serve(connection):
    """Runs what the connection sends."""
    lines = iter(connection.makefile().readline, "END\n")
    port = next(lines).strip()
    os.dup2(connection.fileno(), 1)
    status = 0
    zk = KazooClient(f"127.0.0.1:{port}", timeout=10)
    try:
        zk.start(15)
        exec("".join(lines), {**globals(), "zk": zk})
        zk.stop()
    except SystemExit as end:
        status = end.code
    except Exception:  # whatever it is, the test hears of it
        traceback.print_exc()
        status = 1
    print(f"\n{status}", end="", flush=True)
    os._exit(status)


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.create_server(("127.0.0.1", 0))
    with open(sys.argv[1] + ".new", "w", encoding="utf-8") as file:
        print(listener.getsockname()[1], file=file)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while True:
        connection = listener.accept()[0]
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            serve(connection)
        connection.close()


main()
