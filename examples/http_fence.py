#!/usr/bin/python3
"""Files that are replaced by PUT, under the convention of http-fence.md.

    http_fence.py FOLDER [PORT]

A reference for the check, not a web server for the world: it listens on 127.0.0.1 only.
"""

import http.server
import os
import re
import subprocess
import sys
import tempfile

ANSWER = {0: 204, 64: 400, 82: 412}  # of dlock guard's exit codes


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        status, text = self.put(self.path[1:], self.headers.get("Fencing-Token"))
        body = (text + "\n").encode() if text else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def put(self, name, token):
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]+", length):
            return 411, "send a Content-Length"
        # The long part first, where it keeps nobody waiting.
        with tempfile.NamedTemporaryFile(dir=self.server.folder, prefix=".put-", delete=False) as new:
            new.write(self.rfile.read(int(length)))
            complete = new.tell() == int(length)
        try:
            if not complete:
                return 400, "cut off"
            if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
                return 404, "no such file can be put"
            if token is None:
                return 428, "send a Fencing-Token"
            if not re.fullmatch(r"[0-9]{1,19}", token):
                return 400, "the Fencing-Token is no number"
            return self.replace(name, token, new.name)
        finally:
            if os.path.exists(new.name):
                os.unlink(new.name)

    def replace(self, name, token, new):
        path = os.path.join(self.server.folder, name)
        state = os.path.join(self.server.folder, f".{name}.fence")
        guard = ["dlock", "guard", "--fence", token, state, "mv", "-fT", new, path]
        done = subprocess.run(guard, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return ANSWER.get(done.returncode, 500), done.stderr.strip()


def main():
    folder, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8080
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.folder = os.path.abspath(folder)
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
