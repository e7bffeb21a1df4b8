#!/usr/bin/python3
"""Which of several has a lock after which: many locks at a time, each with contenders of its own.

    order.py modes MANY MODE...       holder, first and second waiter, each in each of the modes; MANY at a time
    order.py lame MS COUNT...         so many waiters in a row that were killed, or are stopped, cost the next
                                      one a second each at most, beside the MS that one of them may cost

A mode is x, s, or how many permits. For service/conformance.bats, which says by which service.
"""

import itertools
import json
import os
import selectors
import signal
import subprocess
import sys
import time

PATIENCE = int(os.environ.get("TEST_PATIENCE", "1"))
OVERTAKES_AFTER = 1.5  # a second is what one ahead may be given, wrongly
SELDOM = 0.02


class Contender:
    """A dlock whose COMMAND says when it begins, and ends when it is told to."""

    def __init__(self, lock, mode):
        how = {"x": [], "s": ["-s"]}.get(mode, ["--permits", mode])
        self.lock, self.mode, self.began = lock, mode, None
        self.process = subprocess.Popen(
            ["dlock", *how, lock, "sh", "-c", "echo; read -r line; :"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        selector.register(self.process.stdout, selectors.EVENT_READ, self)

    def let_go(self):
        self.process.stdin.close()

    def send(self, harm):
        """To a waiter whole: the front, and the keeper, which is of its group."""
        os.killpg(self.process.pid, harm)

    def finish(self):
        self.let_go()
        status = self.process.wait(30 * PATIENCE)
        if status != 0:
            sys.exit(f"{self.lock}: the one of mode {self.mode} ended with {status}")


def look(seconds=0.0):
    """Notes which COMMANDs have begun."""
    for key, _ in selector.select(seconds):
        selector.unregister(key.fileobj)
        if os.read(key.fileobj.fileno(), 1):
            key.data.began = time.monotonic()


def wait_until(what, condition, check=lambda: None):
    limit = time.monotonic() + 30 * PATIENCE
    while True:
        look(SELDOM)
        check()
        missing = condition()
        if not missing:
            return
        if time.monotonic() > limit:
            sys.exit(f"waited in vain for {what}: {missing}")


def waiting():
    """How many wait for each lock."""
    shown = subprocess.run(["dlock", "status", "--json"], stdout=subprocess.PIPE, check=False)
    return {lock["name"]: lock["waiting"] for lock in json.loads(shown.stdout or "[]")}


# ---- Modes ---------------------------------------------------------------------------------------


def goes_with(mode, holders):
    """Whether one of that mode is granted the lock beside those that have it."""
    if mode in ("x", "s"):
        return all(holder == mode == "s" for holder in holders)
    return "x" not in holders and "s" not in holders and len(holders) < int(mode)


class Trial:
    """A holder, and two that come after it, one after the other."""

    def __init__(self, modes):
        self.modes, self.lock = modes, "-".join(modes)
        self.ended, self.all, self.due = 0, [], 0

    def come(self):
        self.all.append(Contender(self.lock, self.modes[len(self.all)]))
        self.decide()

    def leave(self):
        self.all[self.ended].let_go()
        self.ended += 1
        self.decide()

    def decide(self):
        """Those that are due to have begun: up to the first that the others keep out."""
        while self.due < len(self.all) and goes_with(self.modes[self.due], self.modes[self.ended:self.due]):
            self.due += 1

    def check(self):
        for place, contender in enumerate(self.all[self.due:], self.due):
            if contender.began:
                sys.exit(f"{self.lock}: number {place + 1} has the lock, out of turn")

    def is_missing(self, shown):
        return any(not contender.began for contender in self.all[:self.due]) or \
            shown.get(self.lock, 0) != len(self.all) - self.due


def modes_hold(trials):
    def check():
        for trial in trials:
            trial.check()

    def settled():
        shown = waiting()
        return [trial.lock for trial in trials if trial.is_missing(shown)]

    def step(what, act, seconds):
        for trial in trials:
            act(trial)
        wait_until(what, settled, check)
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            look(SELDOM)
            check()

    step("the holders", Trial.come, 0)
    step("the first", Trial.come, 0)
    step("the second", Trial.come, OVERTAKES_AFTER)
    step("those after the holder", Trial.leave, OVERTAKES_AFTER / 3)
    step("those after the first", Trial.leave, 0)
    for trial in trials:
        for contender in trial.all:
            contender.finish()


# ---- Lame ones -----------------------------------------------------------------------------------


class Row:
    """A holder, some waiters in a row that are to be lame, and two that live."""

    def __init__(self, count, harm):
        self.lock = f"{count}-{'killed' if harm == signal.SIGKILL else 'stopped'}"
        self.count, self.harm = count, harm
        self.all, self.ended_at = [], 0.0

    def come(self):
        self.all.append(Contender(self.lock, "x"))

    def lame(self):
        return self.all[1:-2]

    def next_began(self):
        return min((one.began for one in self.all[-2:] if one.began), default=None)

    def is_missing(self, shown):
        return not self.all[0].began or shown.get(self.lock, 0) != len(self.all) - 1

    def end(self):
        self.ended_at = time.monotonic()
        self.all[0].let_go()

    def check(self, most):
        took = 1000 * (self.next_began() - self.ended_at)
        print(f"# {self.lock}: the next one after {took:.0f} ms")
        if took > (most + 1000 * self.count) * PATIENCE:
            sys.exit(f"{self.lock}: {took:.0f} ms, not {most} and a second each")

    def finish(self):
        for one in self.lame():
            one.send(signal.SIGCONT)
        for one in self.all:
            one.let_go()
        for one in self.all:
            if self.harm == signal.SIGKILL and one in self.lame():
                one.process.wait(30)
            else:
                one.finish()


def lame_cost(rows, most):
    for place in range(max(row.count for row in rows) + 3):
        coming = [row for row in rows if len(row.all) < row.count + 3]
        for row in coming:
            row.come()

        def settled(coming=coming):
            shown = waiting()
            return [row.lock for row in coming if row.is_missing(shown)]

        wait_until(f"number {place}", settled)
    for row in rows:
        for one in row.lame():
            one.send(row.harm)
    for row in rows:
        row.end()
    wait_until("the next ones", lambda: [row.lock for row in rows if not row.next_began()])
    for row in rows:
        row.check(most)
    for row in rows:
        row.finish()


selector = selectors.DefaultSelector()
if sys.argv[1] == "modes":
    every = [Trial(modes) for modes in itertools.product(sys.argv[3:], repeat=3)]
    many = int(sys.argv[2])  # at a time: a server has connections for so many
    for at in range(0, len(every), many):
        modes_hold(every[at:at + many])
else:
    lame_cost([Row(int(count), harm) for count in sys.argv[3:]
               for harm in (signal.SIGKILL, signal.SIGSTOP)], int(sys.argv[2]))
