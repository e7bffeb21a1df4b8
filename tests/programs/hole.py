"""A network that swallows: hole.py LISTEN_SOCKET SERVER_SOCKET RULES COUNTS (or ports)

Passes everything on between clients and the server until RULES, read at each piece, says
otherwise; a file of words:

    up=N      of what clients say only the first N bytes arrive, all connections together
    down=N    of what the server says
    late=MS   what the server says comes so much later

What is swallowed is lost without an error: connections stay open, and new ones are accepted, as
behind a firewall that has forgotten them. A connection that has lost something ends when more could
pass: no TCP delivers what comes behind a gap. COUNTS holds "UP DOWN", the bytes that came so far.
"""

import os
import selectors
import socket
import sys
import time

import endpoint


def rules(path):
    try:
        with open(path) as file:
            return {word: int(value) for word, value in
                    (part.split("=") for part in file.read().split())}
    except FileNotFoundError:
        return {}


def main():
    path, server, rules_path, counts_path = sys.argv[1:]
    listener = endpoint.listen(path)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    count = {"up": 0, "down": 0}
    delayed = []  # (when, to, what)
    gaps = set()  # the sides that said what was swallowed

    def end(fileobj, other):
        selector.unregister(fileobj)
        gaps.discard(fileobj)
        for one in (fileobj, other):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    while True:
        wait = max(0, delayed[0][0] - time.monotonic()) if delayed else None
        for key, _ in selector.select(wait):
            if key.data is None:
                client, _ = listener.accept()
                try:
                    upstream = endpoint.connect(server)
                except OSError:
                    client.close()
                    continue
                selector.register(client, selectors.EVENT_READ, ("up", upstream))
                selector.register(upstream, selectors.EVENT_READ, ("down", client))
                continue
            way, other = key.data
            try:
                data = key.fileobj.recv(65536)
            except OSError:
                data = b""
            if not data:
                end(key.fileobj, other)
                continue
            now = rules(rules_path)
            data_left = data[:max(0, now.get(way, 1 << 60) - count[way])]
            count[way] += len(data)
            if key.fileobj in gaps and data_left:
                end(key.fileobj, other)
                continue
            if data_left != data:
                gaps.add(key.fileobj)
            with open(counts_path + ".new", "w") as file:
                file.write(f"{count['up']} {count['down']}\n")
            os.rename(counts_path + ".new", counts_path)
            late = now.get("late", 0) / 1000 if way == "down" else 0
            delayed.append((time.monotonic() + late, other, data_left))
            delayed.sort(key=lambda item: item[0])
        while delayed and delayed[0][0] <= time.monotonic():
            _, other, data = delayed.pop(0)
            try:
                other.sendall(data)
            except OSError:
                pass


main()
