#!/usr/bin/python3
"""Reads OpenMetrics text 1.0 from stdin as its ABNF and its rules have it; says what is wrong.

https://prometheus.io/docs/specs/om/open_metrics_spec/: the grammar (exposition, metricset,
metric-descriptor, sample, labels, number), and of the rules those about names, suffixes, types,
duplicates and interleaving. Prints FAMILY TYPE SAMPLES of each family.
"""

import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
ESCAPED = r'(?:[^\n"\\]|\\[n"\\])*'
LABELS = rf'(?:{LABEL_NAME}="{ESCAPED}"(?:,{LABEL_NAME}="{ESCAPED}")*)?'
REAL = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NUMBER = rf"(?:{REAL}|[+-]?(?:[iI]nf|[iI]nfinity)|[nN]a[nN])"
DESCRIPTOR = re.compile(rf"# (TYPE|HELP|UNIT) ({NAME}) (.*)")
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABELS})\}})? ({NUMBER})(?: ({REAL}))?")
TYPES = {
    "counter": {"_total", "_created"},
    "gauge": {""},
    "unknown": {""},
    "info": {"_info"},
    "stateset": {""},
}


class Wrong(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Wrong(what)


class Family:
    def __init__(self, name):
        self.name = name
        self.told = {}
        self.samples = set()
        self.last = None

    def describe(self, what, text):
        need(what not in self.told, f"{what} twice")
        need(not self.samples, f"{what} after a sample")
        if what == "TYPE":
            need(text in TYPES, f"no type that is known here: {text}")
        if what == "HELP":
            need(re.fullmatch(ESCAPED.replace('"', ""), text.replace('"', "")), "escapes")
        if what == "UNIT":
            need(text == "" or self.name.endswith("_" + text), "the name does not end in the unit")
        self.told[what] = text

    def add(self, suffix, labels, number):
        kind = self.told.get("TYPE", "unknown")
        need(suffix in TYPES[kind], f"a {kind} has no suffix {suffix!r}")
        names = re.findall(rf'({LABEL_NAME})="{ESCAPED}"', labels)
        need(len(set(names)) == len(names), "a label twice")
        key = (suffix, tuple(sorted(re.findall(rf'{LABEL_NAME}="{ESCAPED}"', labels))))
        need(key not in self.samples, "a sample twice")
        self.samples.add(key)
        if kind == "counter":
            value = float(number)
            need(value >= 0, "a counter is neither negative nor no number")


def family_of(name, current):
    """The suffix of a sample of the current family."""
    need(current is not None, "a sample without a family")
    need(name.startswith(current.name), f"a sample of {name} among those of {current.name}")
    return name[len(current.name) :]


def read(text):
    need(text.endswith("# EOF\n"), "the end is not '# EOF' and a newline")
    families, current = {}, None
    for number, line in enumerate(text[: -len("# EOF\n")].split("\n")[:-1], 1):
        try:
            if line.startswith("#"):
                found = DESCRIPTOR.fullmatch(line)
                need(found, "neither TYPE, HELP nor UNIT")
                if current is None or current.name != found[2]:
                    need(found[2] not in families, "a family in two places")
                    for other in families:
                        need(not found[2].startswith(other + "_total"), "names clash")
                    current = families[found[2]] = Family(found[2])
                current.describe(found[1], found[3])
            else:
                found = SAMPLE.fullmatch(line)
                need(found, "no sample")
                current and current.add(family_of(found[1], current), found[2] or "", found[3])
                need(current, "a sample before any TYPE")
        except Wrong as wrong:
            raise Wrong(f"line {number}: {wrong}: {line!r}") from None
    return families


def main():
    try:
        families = read(sys.stdin.buffer.read().decode("utf-8"))
    except (Wrong, UnicodeDecodeError) as wrong:
        sys.exit(f"no OpenMetrics: {wrong}")
    for family in families.values():
        print(family.name, family.told.get("TYPE"), len(family.samples))


main()
