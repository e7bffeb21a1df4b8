"""What a shell offers, asked as a person would: on a terminal, by a key.

    press.py SHELL SETUP <LINES

For each line prints the words that are offered in the place of its last one, sorted, on one line.
The shell is bash or zsh; SETUP is what it reads first.
"""

import os
import shlex
import sys

from terminal import Terminal, wait_until

# Insert all that is offered; then the line's beginning, and a command that tells its words.
KEYS = {"bash": "\x1b*", "zsh": "\x18a"}
SHOW = "show() { printf '%s\\n' \"$@\" >shown.new; command mv shown.new shown; }; "
ALL = {
    "bash": "",
    "zsh": "bindkey -e; zle -C all-of-them complete-word _generic; bindkey '^Xa' all-of-them; "
    "zstyle ':completion:all-of-them:*' completer _all_matches _complete; "
    "zstyle ':completion:all-of-them:*' insert yes; ",
}
START = {"bash": ("bash", "--norc", "--noprofile"), "zsh": ("zsh", "-f")}


class Shell(Terminal):
    def __init__(self, shell, setup):
        self.shell = shell
        with open("setup", "w") as file:
            file.write(SHOW + ALL[shell] + setup)
        super().__init__(*START[shell], rows=50, columns=200)
        self.send(" . ./setup; show ready\r")
        self.shown()

    def shown(self):
        """The words of the command show, once it has run."""

        def there():
            self._read()
            return os.path.exists("shown")

        wait_until(there, f"an answer; on the terminal: {self.seen!r}")
        with open("shown") as file:
            words = file.read().splitlines()
        os.unlink("shown")
        return words

    def press(self, line):
        before, _, last = line.rpartition(" ")
        self.send("\x15" + line + KEYS[self.shell] + "\x01show \r")
        words = self.shown()[len(shlex.split(before)) :]
        return [] if words == [last] else words


def main():
    shell = Shell(*sys.argv[1:])
    for line in sys.stdin.read().splitlines():
        print(*sorted(word.rstrip("=") for word in shell.press(line)), flush=True)
    shell.send("exit\r")
    shell.wait()
    # Nothing else was said on the terminal.
    assert "dlock: " not in shell.seen and "rror" not in shell.seen, shell.seen


main()
