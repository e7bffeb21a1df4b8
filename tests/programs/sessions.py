#!/usr/bin/python3
"""Runs the sessions that a document shows, and compares what comes with what the document says.

    sessions.py FILE [OLD=NEW]...

A session is a block that begins with ```console. A line `$ COMMAND`, or `NAME$ COMMAND`, is typed into a shell, of
which there is one for each NAME; `> ` goes on with it. The lines below are the output of both streams. The shells
live as long as FILE, and share a folder. `^C` is what the key does. `...` stands for one line or more. A block that
begins with output goes on with the shell that stands behind ```console.

A command may still run when another shell's turn comes: then its output so far is there, or, if none is shown, it
is among the holders or waiters of a lock. OLD in a command becomes NEW.

Names of hosts, users, process ids, tokens and times are compared by their form only.
"""
import difflib, json, os, re, signal, subprocess, sys, tempfile, time

PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))
PROMPT = re.compile(r"(\w*)\$ (.*)")


class Wrong(Exception):
    pass


def plain(line):
    """The line with what differs from run to run replaced."""
    for form, word in (
        (r"[\w.-]+:\d+:[0-9a-f]{32}", "TOKEN"),
        (r'"(host|user|since|began|ended)":"[^"]*"', r'"\1":TEXT'),
        (r'"(pid|fence|ttl_ms|held_ms|waited_ms)":\d+', r'"\1":NUMBER'),
        (r"(?<![/\w.-])[\w.-]+:\d+ \(\w+, ", "HOST:PID (USER, "),
        (r"(?<![/\w.-])[\w.-]+:\d+ \w+ ", "HOST:PID USER "),
        (r"\bon [\w.-]+(?=, took|\))", "on HOST"),
        (r"\b\d{16}\b", "FENCE"),
        (r"^ *\d+ +\d+ (?=dlock )", "PID PPID "),
        (r"\bprocess(es)? \d+(, \d+)*", r"process\1 PID"),
        (r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b", "TIME"),
        (r"\s+", " "),
        # In a folder a lock has no TTL.
        (r"( (?:exclusive|shared|permits|free) .* (?:TIME|-)) (?:TIME|-)( \S+ \d+)$", r"\1 TTL\2"),
    ):
        line = re.sub(form, word, line)
    return line.strip()


def matches(wanted, seen):
    """Whether the lines are those wanted, of which `...` is one or more."""
    if not wanted:
        return not seen
    if wanted[0] == "...":
        return any(matches(wanted[1:], seen[n:]) for n in range(1, len(seen) + 1))
    return bool(seen) and wanted[0] == seen[0] and matches(wanted[1:], seen[1:])


def wait_until(condition, what):
    limit = time.monotonic() + 30 * PATIENCE
    while not condition():
        if time.monotonic() > limit:
            raise Wrong("waited in vain: " + what())
        time.sleep(0.02)


def as_at_login():
    """A job in the background is started with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


class Shell:
    def __init__(self, name, folder):
        self.name, self.place = name, os.path.join(folder, "session" + name)
        self.process = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        start_new_session=True, text=True, preexec_fn=as_at_login)
        self.count, self.command, self.wanted = 0, None, []

    def type(self, command):
        self.finish()
        self.count += 1
        self.command, self.wanted = command, []
        with open(self.file("typed"), "w") as file:
            file.write(command + "\n")
        self.process.stdin.write('(exit "${last-0}"); . "%s" </dev/null >"%s" 2>&1; last=$?; : >"%s"\n' %
                                 (self.file("typed"), self.file("out"), self.file("over")))
        self.process.stdin.flush()

    def file(self, what):
        return "%s.%d.%s" % (self.place, self.count, what)

    def seen(self):
        try:
            with open(self.file("out")) as file:
                return [plain(line) for line in file.read().splitlines() if line.strip()]
        except FileNotFoundError:
            return []

    def is_over(self):
        return os.path.exists(self.file("over"))

    def expect(self, line):
        if line == "^C":
            self.leave()
            self.interrupt()
        else:
            self.wanted.append(line if line == "..." else plain(line))

    def interrupt(self):
        """To all that a terminal sends it to: not to the keeper, which has left its group."""
        for pid in self.below(self.process.pid):
            try:
                with open("/proc/%d/stat" % pid) as file:
                    is_keeper = "(dlock)" in file.read() and pid not in self.children()
                if not is_keeper:
                    os.kill(pid, signal.SIGINT)
            except OSError:
                pass

    def children(self, pid=None):
        pid = pid or self.process.pid
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
                return [int(word) for word in file.read().split()]
        except OSError:
            return []

    def below(self, pid):
        found = self.children(pid)
        return found + [one for child in found for one in self.below(child)]

    def has_lock(self):
        """Whether a child holds a lock, or waits for one."""
        for child in self.children():
            try:
                with open("/proc/%d/environ" % child) as file:
                    pairs = [one.split("=", 1) for one in file.read().split("\0") if "=" in one]
            except OSError:
                continue
            # Of a child that has not come to its exec yet this is nothing.
            said = subprocess.run(["dlock", "status", "--json"], env={**os.environ, **dict(pairs)},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            for lock in json.loads(said or "[]"):
                if any(one["pid"] == child for one in lock["holders"] + lock["waiters"]):
                    return True
        return False

    def leave(self):
        """Another shell's turn: what is shown has come."""
        if not self.command:
            return
        shown = len(self.wanted)
        wait_until(lambda: self.is_over() or (len(self.seen()) >= shown if shown else self.has_lock()),
                   lambda: "%s$ %s\n%s" % (self.name, self.command, "\n".join(self.seen())))

    def finish(self):
        if not self.command:
            return
        wait_until(self.is_over, lambda: "%s$ %s\n%s" % (self.name, self.command, "\n".join(self.seen())))
        seen = self.seen()
        if not matches(self.wanted, seen):
            lines = difflib.unified_diff(self.wanted, seen, "shown", "seen", lineterm="")
            raise Wrong("%s$ %s\n%s" % (self.name, self.command, "\n".join(lines)))
        self.command = None

    def end(self, failed):
        self.process.stdin.close()
        if failed:
            os.killpg(self.process.pid, signal.SIGTERM)
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def lines_of(path):
    """(shell, prompted, text) of each line in a session."""
    name, inside = None, False
    for line in open(path):
        line = line.rstrip("\n")
        if line.startswith("```"):
            inside = line.startswith("```console")
            name = line.split()[1] if inside and " " in line else None
        elif inside and line:
            typed = PROMPT.fullmatch(line)
            if typed:
                name = typed[1]
            yield name, bool(typed), typed[2] if typed else line


def joined(lines):
    """The same with what `> ` goes on with at its command."""
    last = None
    for name, typed, text in lines:
        if last and last[1] and not typed and text.startswith("> "):
            last[2] += "\n" + text[2:]
            continue
        if last:
            yield last
        last = [name, typed, text]
    if last:
        yield last


def main():
    path, changes = sys.argv[1], [one.split("=", 1) for one in sys.argv[2:]]
    shells, current, typed_lines, failed = {}, None, 0, True
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, typed, text in joined(lines_of(path)):
                if current and current is not shells.get(name):
                    current.leave()
                if name not in shells:
                    shells[name] = Shell(name, folder)
                current = shells[name]
                if typed:
                    for old, new in changes:
                        text = text.replace(old, new)
                    current.type(text)
                    typed_lines += 1
                else:
                    current.expect(text)
            for shell in shells.values():
                shell.finish()
            failed = False
        except Wrong as wrong:
            sys.exit(str(wrong))
        finally:
            for shell in shells.values():
                shell.end(failed)
    print("%d lines typed" % typed_lines)


main()
