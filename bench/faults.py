#!/usr/bin/python3
"""One contestant of `bench/run faults`: contenders take its lock over and over, and now and then the one that has it,
its server or its connection is hurt. The judge is judge.c, by flock(2).

    faults.py --folder FOLDER --judge FILE --seconds N --seed N --ttl SECONDS [--server PID]... [--proxy FROM=TO]...
              [--keeper] -- WORD...

WORD... are what stands before COMMAND. FOLDER is the run's; FROM=TO are unix sockets (with a slash) or ports, where
the contenders reach the server through us. --keeper: the wrapper's child is one of its processes, too.
Prints a figure a line: name, tab, value.
"""

import argparse
import asyncio
import ctypes
import glob
import os
import random
import signal
import subprocess
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
CONTENDERS = 3
CALM = 2.5  # s, before each fault: for ordinary grants

# What is done to the run that is aimed at, whose COMMAND takes JOB: longer than the TTL of those who renew, and
# shorter than that of those who do not.
JOB = 4
SERVER_FAULTS = ("restart", "frozen", "cut")
FAULTS = ("long", "kill", "kill-group", "stop", "pause") + SERVER_FAULTS


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("folder", "judge"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--ttl", type=float, required=True)
    parser.add_argument("--server", type=int, action="append", default=[])
    parser.add_argument("--proxy", action="append", default=[])
    parser.add_argument("--keeper", action="store_true")
    parser.add_argument("words", nargs="+")
    return parser.parse_args()


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def tree(pid):
    """PID and all that descends from it, parents first."""
    found = [pid]
    for one in found:
        for children in glob.glob(f"/proc/{one}/task/*/children"):
            try:
                with open(children) as file:
                    found += map(int, file.read().split())
            except OSError:
                pass
    return found


def program_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


class Server:
    """Processes that somebody has started: killed and started again by the words and as the user that they had."""

    def __init__(self, pids, log):
        self.pids = pids
        self.again = {}
        self.log = log
        for pid in pids:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")[:-1]
            user = os.stat(f"/proc/{pid}")
            self.again[pid] = (os.readlink(f"/proc/{pid}/exe"), words, os.readlink(f"/proc/{pid}/cwd"), user)
        self.first = pids[0] if pids else None

    def signal(self, number):
        for pid in tree(self.first):
            send(pid, number)

    def restart(self):
        program, words, folder, user = self.again.pop(self.first)
        self.signal(signal.SIGKILL)
        time.sleep(0.1)
        # PostgreSQL takes a process that its parent has not reaped for one that runs.
        for file in glob.glob(f"{folder}/postmaster.pid") + glob.glob(f"{folder}/../.s.*.lock"):
            os.unlink(file)
        with open(self.log, "a") as log:
            started = subprocess.Popen(words, executable=program, cwd=folder, user=user.st_uid, group=user.st_gid,
                                       extra_groups=[], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pids = [started.pid if pid == self.first else pid for pid in self.pids]
        self.first = started.pid
        self.again[self.first] = (program, words, folder, user)

    def end(self):
        for pid in self.pids:
            for one in tree(pid):
                send(one, signal.SIGKILL)


class Proxy(threading.Thread):
    """Between contenders and server, to break what connects them."""

    def __init__(self, pairs):
        super().__init__(daemon=True)
        self.pairs, self.writers = [pair.split("=", 1) for pair in pairs], set()
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()

    async def pass_on(self, reader, writer):
        self.writers.add(writer)
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        self.writers.discard(writer)
        writer.close()

    async def serve(self, where, to):
        async def accept(reader, writer):
            try:
                far_reader, far_writer = await (asyncio.open_unix_connection(to) if "/" in to else
                                                asyncio.open_connection("127.0.0.1", int(to)))
            except OSError:
                writer.close()
                return
            await asyncio.gather(self.pass_on(reader, far_writer), self.pass_on(far_reader, writer))

        if "/" in where:
            await asyncio.start_unix_server(accept, where)
            os.chmod(where, 0o777)
        else:
            await asyncio.start_server(accept, "127.0.0.1", int(where))

    async def open(self):
        for where, to in self.pairs:
            await self.serve(where, to)
        self.ready.set()

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.create_task(self.open())
        self.loop.run_forever()

    def cut(self):
        self.loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in list(self.writers)])


class Contender(threading.Thread):
    """Takes the lock over and over, until END; each run has a name."""

    codes, runs = {}, {}  # of all contenders: run to exit code, run to the wrapper's pid

    def __init__(self, options, number, end):
        super().__init__()
        self.options, self.number, self.end = options, number, end

    def run(self):
        count = 0
        with open(f"{self.options.folder}/stderr", "a") as stderr:
            while time.monotonic() < self.end:
                count += 1
                name = f"{self.number}.{count}"
                process = subprocess.Popen([*self.options.words, self.options.judge, self.options.folder],
                                           env={**os.environ, "BENCH_RUN": name}, start_new_session=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
                self.runs[name] = process.pid
                self.codes[name] = process.wait()
                if self.codes[name] != 0:
                    time.sleep(0.1)  # what cannot be had is not asked for in a busy loop


class Trouble:
    def __init__(self, options, server, proxy):
        self.options, self.server, self.proxy = options, server, proxy
        self.begun = []  # (ms, kind, the run that was aimed at)
        self.pick = random.Random(options.seed)

    def rounds(self):
        """The same faults in the same order for every contestant."""
        order = random.Random(self.options.seed)
        while True:
            kinds = list(FAULTS)
            order.shuffle(kinds)
            for kind in kinds:
                if kind not in SERVER_FAULTS or self.server.first:
                    yield kind

    def aim(self, seconds):
        """The next COMMAND is to take long; its run, and its pid, once it has begun."""
        folder = self.options.folder
        with open(f"{folder}/next.new", "w") as file:
            file.write(str(int(JOB * 1000)))
        os.rename(f"{folder}/next.new", f"{folder}/next")
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            for aim in glob.glob(f"{folder}/aim.*"):
                run = aim.rpartition("/aim.")[2]
                os.unlink(aim)
                return run, next(line[3] for line in read_log(folder) if line[1:3] == ["begin", run])
            time.sleep(0.01)
        return None

    def one_of(self, run):
        """A process of the wrapper: what was started or, with a keeper, its child."""
        processes = tree(Contender.runs[run])
        return processes[1] if self.options.keeper and self.pick.random() < 0.5 else processes[0]

    def strike(self, kind, run):
        """Does it, and returns what undoes it after the TTL and a second."""
        wrapper = Contender.runs[run]
        if kind == "kill":
            send(self.one_of(run), signal.SIGKILL)
        elif kind == "kill-group":
            os.killpg(wrapper, signal.SIGKILL)
        elif kind in ("stop", "pause"):
            pids = [self.one_of(run)] if kind == "stop" else tree(wrapper)
            for pid in pids:
                send(pid, signal.SIGSTOP)
            return lambda: [send(pid, signal.SIGCONT) for pid in pids]
        elif kind == "restart":
            self.server.restart()
        elif kind == "frozen":
            self.server.signal(signal.SIGSTOP)
            return lambda: self.server.signal(signal.SIGCONT)
        elif kind == "cut":
            self.proxy.cut()
        return None

    def until(self, end):
        for kind in self.rounds():
            if time.monotonic() + CALM + JOB + self.options.ttl + 2 > end:
                return
            time.sleep(CALM)
            aimed = self.aim(end - time.monotonic() - JOB - self.options.ttl)
            if not aimed:
                return
            run, command = aimed
            self.begun.append((time.monotonic() * 1000, kind, run))
            time.sleep(0.3)
            undo = self.strike(kind, run)
            if undo:
                time.sleep(self.options.ttl + 1)
                undo()
            limit = time.monotonic() + JOB + 2
            while os.path.exists(f"/proc/{command}") and time.monotonic() < limit:
                time.sleep(0.02)


def read_log(folder):
    try:
        with open(f"{folder}/log") as file:
            return [line.split() for line in file]
    except FileNotFoundError:
        return []


def figures(log, trouble):
    ends = {line[2]: int(line[0]) for line in log if line[1] == "end"}
    begins = [line for line in log if line[1] == "begin"]
    kind_of = {run: kind for _, kind, run in trouble.begun}
    tries = {kind: list(kind_of.values()).count(kind) for kind in FAULTS}
    broke = {kind: set() for kind in FAULTS}  # the tries in which commands overlapped
    victims, stale, last = set(), 0, 0
    for number, (ms, _, run, _, fence, free) in enumerate(begins):
        if fence != "-":
            stale += int(fence) <= last
            last = max(last, int(fence))
        if free == "free":
            continue
        victims |= {old[2] for old in begins[:number] if ends.get(old[2], 0) > int(ms)}
        before = [(kind, aimed) for begun, kind, aimed in trouble.begun if begun <= int(ms)]
        if before:
            broke[before[-1][0]].add(before[-1][1])
    killed = [run for run, kind in kind_of.items() if kind in ("kill", "kill-group")]
    lied = [run for _, _, run, *_ in begins if Contender.codes.get(run, -1) >= 0 and
            (Contender.codes[run] == 0 and run in victims or
             Contender.codes[run] != 0 and run in ends and run not in victims)]
    print(f"grants\t{len(begins)}")
    for kind in FAULTS:
        print(f"{kind}\t" + (f"{len(broke[kind])} of {tries[kind]}" if tries[kind] else "–"))
    total = sum(line[5] == "held" for line in begins)
    thousand = len(begins) / 1000 or 1
    print(f"overlaps\t{total / thousand:.1f}")
    print("stale\t" + (f"{stale / thousand:.1f}" if last else "none"))
    print(f"left\t{sum(run in ends for run in killed)} of {len(killed)}")
    print(f"lied\t{len(lied) / thousand:.1f}")
    for line in log:
        print(" ".join(line), file=sys.stderr)
    for begun, kind, run in trouble.begun:
        print(f"{begun:.0f} fault {kind} {run} {Contender.codes.get(run)}", file=sys.stderr)
    for run in lied:
        print(f"lied: {run} {Contender.codes[run]}", file=sys.stderr)


def sweep(folder, contenders):
    """What still waits or runs is ended."""
    limit = time.monotonic() + 5
    while any(contender.is_alive() for contender in contenders) and time.monotonic() < limit:
        time.sleep(0.05)
    for run, pid in list(Contender.runs.items()):
        if run not in Contender.codes:
            for one in tree(pid):
                send(one, signal.SIGKILL)
    for line in read_log(folder):
        if line[1] == "begin" and program_of(line[3]).endswith("/judge"):
            send(int(line[3]), signal.SIGKILL)


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    server, proxy = Server(options.server, f"{options.folder}/server.log"), Proxy(options.proxy)
    proxy.start()
    proxy.ready.wait()
    end = time.monotonic() + options.seconds
    contenders = [Contender(options, number, end) for number in range(CONTENDERS)]
    trouble = Trouble(options, server, proxy)
    try:
        for contender in contenders:
            contender.start()
        trouble.until(end)
        time.sleep(max(0, end - time.monotonic()))
    finally:
        for contender in contenders:
            contender.end = 0
        sweep(options.folder, contenders)
        server.end()
    figures(read_log(options.folder), trouble)


if __name__ == "__main__":
    main()
