"""Writes a history: a line for each thing that a contender or its command did, in the order in which it became
true. docs/verification.md says what the lines are; tests/check-history judges them.

A command tells by a connection of its own, HISTORY=PORT:RUN in its environment, and waits for an answer. Whatever
descends from it keeps the connection: it breaks when the last of them is gone, which is the command's end. Before
a line is written, the ends that the kernel knows of are: so a command that begins after another's end stands
behind that end.
"""

import select
import socket
import subprocess
import threading
import time


class History:
    def __init__(self, path, **about):
        self.file = open(path, "w")
        self.file.write("# dlock history 1 " + fields(about) + "\n")
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.runs = {}  # connection: the run that it speaks for; "" before it has said
        self.gone = []  # connections that only the listening thread closes, as it may be looking at them
        self.over = False
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def environment(self, run):
        return {"HISTORY": f"{self.port}:{run}"}

    def note(self, run, event, **more):
        with self.lock:
            self.write_ends()
            self.write(run, event, more)

    def write(self, run, event, more):
        self.file.write(f"{time.monotonic():.6f} {run} {event} {fields(more)}".rstrip() + "\n")

    def write_ends(self):
        commands = [one for one, run in self.runs.items() if run]
        for one in select_now(commands):
            if not receive(one):
                self.write(self.runs.pop(one), "ended", {})
                self.gone.append(one)

    def hear(self, one):
        """What a command says as it begins: RUN, then fields."""
        words = receive(one).decode().split()
        if not words:
            del self.runs[one]
            self.gone.append(one)
            return
        self.write_ends()
        self.runs[one] = words[0]
        self.write(words[0], "began", dict(word.split("=", 1) for word in words[1:]))
        one.send(b"\n")

    def listen(self):
        while not (self.over and not self.runs):
            ready = select.select([self.listener, *self.runs], [], [], 0.2)[0]
            with self.lock:
                if self.listener in ready:
                    self.runs[self.listener.accept()[0]] = ""
                for one in ready:
                    if self.runs.get(one) == "":
                        self.hear(one)
                self.write_ends()
                while self.gone:
                    self.gone.pop().close()

    def close(self):
        """Waits for the commands that there are."""
        self.over = True
        self.thread.join()
        self.listener.close()
        self.file.close()


def commit(folder):
    """Of the source in it; with a + if it was changed since. A tarball has none, and perhaps nobody has git."""
    words = ["git", "-C", folder, "describe", "--always", "--dirty=+"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        said = ""
    return said or "unknown"


def fields(values):
    return " ".join(f"{name}={value}" for name, value in values.items())


def select_now(sockets):
    return select.select(sockets, [], [], 0)[0] if sockets else []


def receive(one):
    try:
        return one.recv(512)
    except ConnectionResetError:
        return b""
