#!/usr/bin/python3
"""Writes src/base/utf8_width_table.h to stdout: which characters take two columns of a terminal, or none.

What Python knows of Unicode is the source: East_Asian_Width W and F are two columns, the
general categories Mn, Me and Cf none (but the soft hyphen), and so are the vowels and finals of
Hangul, which join the syllable before them. What is not assigned in a run takes after it.
"""

import sys
import unicodedata


def width(code):
    char = chr(code)
    if 0x1160 <= code <= 0x11FF:
        return 0
    if unicodedata.category(char) in ("Mn", "Me", "Cf") and code != 0xAD:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def ranges():
    """(first, last, width) of each run that is not one column wide."""
    run = None
    gap = 0
    for code in range(0xA0, sys.maxunicode + 1):
        if 0x20000 <= code <= 0x3FFFF:
            run, gap = (code & 0x20000, 0x3FFFF, 2), 0  # ideographs, assigned or not
            continue
        if unicodedata.category(chr(code)) in ("Cn", "Cs", "Co"):
            gap += 1
            continue
        if run and (width(code) != run[2] or gap > 64):
            yield run
            run = None
        if width(code) != 1:
            run = (run[0] if run else code, code, width(code))
        gap = 0
    if run:
        yield run


def main():
    print(f"/* Written by src/base/utf8_width_table.py from Unicode {unicodedata.unidata_version}. */")
    print("/* clang-format off */")
    line = "\t"
    for one in ranges():
        text = "{0x%X, 0x%X, %d}, " % one
        if len(line) + len(text) > 93:
            print(line.rstrip())
            line = "\t"
        line += text
    print(line.rstrip())
    print("/* clang-format on */")


main()
