"""Reads what `dlock status --json` printed, holds it against the frozen shape, prints the names."""

import datetime
import json
import sys

LOCK = ["name", "key", "mode", "fence", "ttl_ms", "holders", "waiting", "waiters", "last_success", "last_run"]
RUN = ["began", "ended", "exit", "host", "label"]
HOLDER = ["host", "pid", "user", "label", "since", "held_ms", "ttl_ms", "detached"]
WAITER = ["host", "pid", "user", "label", "priority", "mode", "waited_ms"]
TEXTS = {"name", "key", "mode", "host", "user", "label", "since", "began", "ended"}
LISTS = {"holders", "waiters"}
# What is not known, or has no end, may be null.
RUNS = {"last_success", "last_run"}
OPTIONAL = RUNS | {"fence", "ttl_ms", "since", "held_ms"}


def check(thing, keys):
    assert list(thing) == keys, (list(thing), keys)
    for key, value in thing.items():
        if value is None:
            assert key in OPTIONAL, key
        elif key in TEXTS:
            assert isinstance(value, str), (key, value)
        elif key in RUNS:
            check(value, RUN)
        elif key in LISTS:
            assert isinstance(value, list), (key, value)
        elif key == "detached":
            assert isinstance(value, bool), (key, value)
        else:
            assert type(value) is int, (key, value)


text = sys.stdin.buffer.read().decode("utf-8")
assert text.endswith("\n"), "the last line does not end"
locks = json.loads(text)
assert isinstance(locks, list)
for lock in locks:
    check(lock, LOCK)
    assert lock["mode"] in ("exclusive", "shared", "permits", "foreign", "free"), lock
    assert lock["waiting"] == len(lock["waiters"]), lock
    assert lock["mode"] != "foreign" or lock["holders"] == [], lock
    for holder in lock["holders"]:
        check(holder, HOLDER)
        since = holder["since"]
        if since is not None:
            assert len(since) == 24 and since[10] == "T" and since.endswith("Z"), since
            datetime.datetime.fromisoformat(since[:-1])
    for waiter in lock["waiters"]:
        check(waiter, WAITER)
    print(lock["name"])
