"""A program on a terminal of its own, driven as a person would: type, read, resize, hang up."""

import atexit
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
import time

PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))


def wait_until(condition, what, seconds=15):
    """Polls condition until it is true; its value. Raises when it never was."""
    limit = time.monotonic() + seconds * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)


def process_state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_gone(pid):
    return process_state(pid) in ("", "Z", "X")


def sleeping_dlocks(parent):
    """The pids of those below it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                text = file.read()
        except OSError:
            continue  # it went while we looked
        state, of = text.rpartition(")")[2].split()[:2]
        if of == str(parent) and "(dlock)" in text and state == "S":
            yield int(pid)


def is_connected(pid):
    folder = f"/proc/{pid}/fd"
    try:
        return any("socket:" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
    except OSError:
        return False


def waiting_child(parent):
    """The dlock below parent that sleeps, while its keeper does with a connection: it waits."""
    for front in sleeping_dlocks(parent):
        if any(is_connected(keeper) for keeper in sleeping_dlocks(front)):
            return front
    return None


def set_size(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Terminal:
    """argv becomes the leader of a session whose controlling terminal this is."""

    def __init__(self, *argv, rows=24, columns=80):
        self.seen = ""
        self.read_to = 0
        self.status = None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            for number in range(1, signal.NSIG):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):
                    pass
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            # Here, not by the parent: the program is not to get SIGWINCH for its first size.
            set_size(0, rows, columns)
            try:
                os.execvp(argv[0], argv)
            finally:
                os._exit(125)
        atexit.register(self._end)
        os.set_blocking(self.master, False)

    def _end(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)

    def _read(self):
        try:
            data = os.read(self.master, 65536)
        except (BlockingIOError, OSError):
            return  # nothing yet, or hung up
        self.seen += data.decode(errors="replace")

    def expect(self, pattern, seconds=15):
        """The match of pattern in what comes after the last match."""

        def match():
            self._read()
            return re.compile(pattern).search(self.seen, self.read_to)

        try:
            found = wait_until(match, f"{pattern!r} on the terminal", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {self.seen!r}") from None
        self.read_to = found.end()
        return found

    def send(self, text):
        os.write(self.master, text.encode())

    def resize(self, rows, columns):
        set_size(self.master, rows, columns)

    def hang_up(self):
        os.close(self.master)

    def wait(self, seconds=15):
        """("exit", N) or ("signal", N) or ("core", N): a signal that left a core."""

        def ended():
            self._read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
                self._read()  # what it wrote last
            return pid

        try:
            wait_until(ended, "the end of the program on the terminal", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {self.seen!r}") from None
        if os.WIFEXITED(self.status):
            return "exit", os.WEXITSTATUS(self.status)
        return ("core" if os.WCOREDUMP(self.status) else "signal"), os.WTERMSIG(self.status)


class Shell(Terminal):
    """An interactive bash with job control and a prompt that is easy to see."""

    PROMPT = r"ready> "

    def __init__(self):
        os.environ["PS1"] = "ready> "
        super().__init__("bash", "--norc", "--noprofile", "--noediting", "-i")
        self.expect(self.PROMPT)

    def run(self, line):
        """Types a line, waits for the next prompt; what came between, without the echo."""
        self.send(line + "\n")
        self.expect(re.escape(line) + r"\r?\n")
        begin = self.read_to
        found = self.expect(self.PROMPT)
        return self.seen[begin : found.start()].replace("\r", "")

    def stop(self, command):
        """Ctrl-Z, until the process `command` has stopped too. Before that it may read what is typed: a
        reader that Ctrl-Z woke looks at the terminal first, and at its signals afterwards (n_tty_read()
        in drivers/tty/n_tty.c); below flock too."""
        self.send("\x1a")
        self.expect("Stopped")
        self.expect(self.PROMPT)
        wait_until(lambda: process_state(command) == "T", "COMMAND to stop")

    def leave(self):
        self.send("exit\n")
        status = self.wait()
        assert status[0] == "exit", status


def check(condition, *what):
    if not condition:
        print("not so:", *what, file=sys.stderr)
        raise AssertionError
