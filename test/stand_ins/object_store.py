# SPDX-License-Identifier: Apache-2.0
"""A small S3 server on loopback, for tests: it checks signatures by its own code, and misbehaves on request.

    python3 object_store.py FOLDER SECONDS

FOLDER/BUCKET/KEY are the objects. It prints its port, serves until SECONDS have passed or standard input is closed, and then
ends by itself. Keys: AKIDTEST with the secret below; a session token, if it is sent, has to be "session-token-of-the-test".
What it does wrong is the first part of a path before the bucket, as an endpoint may have one:
    /storm       two of three requests are answered with 503
    /down        all requests are answered with 503
    /cut         bodies over 10,000 bytes break off in the middle, for the first half of the tries
    /whole       ranges are ignored: 200 and the whole object
    /mute        the same without a length (chunked)
    /changing    each answer has another tag
    /elsewhere   301 with the region of the bucket
    /pages       lists have three keys a page
    /listless    lists are answered with 404, as by a server that has none
/web/... serves files without signatures, as a web server; "?key=KEY-OF-A-LINK" is needed for names that hold "private";
/moved/... redirects to /web/....; /served tells how many bytes of objects were sent, and starts again.
"""
import hashlib
import hmac
import http.server
import os
import sys
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

SECRET = "secret/Key+OfTheTest/0123456789abcdefghij"
TOKEN = "session-token-of-the-test"
folder = os.path.abspath(sys.argv[1])
counts = {}
lock = threading.Lock()


def count(what, by=1):
    with lock:
        counts[what] = counts.get(what, 0) + by
        return counts[what]


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def refuse(self, status, code, **headers):
        body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>no</Message></Error>'.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def signature_problem(self, path, query):
        """None, or the code of what is wrong with the Authorization header."""
        given = self.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return "AccessDenied"
        parts = dict(part.strip().split("=", 1) for part in given[17:].split(","))
        key_id, day, region, service, end = parts["Credential"].split("/")
        if key_id != "AKIDTEST":
            return "InvalidAccessKeyId"
        stamp = self.headers["x-amz-date"]
        age = time.time() - time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) + time.timezone
        if stamp[:8] != day or abs(age) > 900:
            return "RequestTimeTooSkewed"
        names = parts["SignedHeaders"].split(";")
        if "host" not in names or "x-amz-date" not in names or self.headers.get("x-amz-content-sha256") is None:
            return "AccessDenied"
        if self.headers.get("x-amz-security-token", TOKEN) != TOKEN:
            return "InvalidToken"
        pairs = sorted(urllib.parse.quote(n, safe="-._~") + "=" + urllib.parse.quote(v, safe="-._~")
                       for n, v in urllib.parse.parse_qsl(query, keep_blank_values=True))
        canonical = "\n".join([self.command, urllib.parse.quote(urllib.parse.unquote(path), safe="/-._~"), "&".join(pairs)]
                              + [name + ":" + self.headers[name].strip() for name in names]
                              + ["", ";".join(names), self.headers["x-amz-content-sha256"]])
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, "/".join([day, region, service, end]),
                          hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + SECRET).encode()
        for word in (day, region, service, end):
            key = sign(key, word)
        return None if sign(key, text).hex() == parts["Signature"] else "SignatureDoesNotMatch"

    def list(self, bucket, query, page):
        top = os.path.join(folder, bucket)
        if not os.path.isdir(top):
            return self.refuse(404, "NoSuchBucket")
        asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        keys = sorted((os.path.relpath(os.path.join(where, name), top)
                       for where, _, names in os.walk(top) for name in names), key=str.encode)
        keys = [key for key in keys if key.startswith(asked.get("prefix", "")) and key > asked.get("continuation-token", "")]
        more = len(keys) > page
        rows = "".join(f"<Contents><Key>{escape(key)}</Key><ETag>&quot;{self.tag(os.path.join(top, key))}&quot;</ETag>"
                       f"<Size>{os.path.getsize(os.path.join(top, key))}</Size></Contents>" for key in keys[:page])
        token = f"<NextContinuationToken>{escape(keys[page - 1])}</NextContinuationToken>" if more else ""
        body = (f'<?xml version="1.0"?><ListBucketResult><Name>{bucket}</Name><IsTruncated>{str(more).lower()}</IsTruncated>'
                f"{token}{rows}</ListBucketResult>").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def tag(self, path):
        return hashlib.md5(f"{path} {os.path.getsize(path)}".encode()).hexdigest()

    def send_object(self, path, mode):
        if not os.path.isfile(path):
            return self.refuse(404, "NoSuchKey")
        size = os.path.getsize(path)
        first, last, ranged = 0, size - 1, self.headers.get("Range")
        if ranged and mode not in ("whole", "mute"):
            first, last = (int(n) if n else size - 1 for n in ranged.split("=")[1].split("-"))
            last = min(last, size - 1)
            if first >= size:
                return self.refuse(416, "InvalidRange", Content_Range=f"bytes */{size}")
        else:
            ranged = None
        tag = str(count("tag")) if mode == "changing" else self.tag(path)
        self.send_response(206 if ranged else 200)
        self.send_header("ETag", f'"{tag}"')
        if ranged:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        if mode == "mute":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        with open(path, "rb") as file:
            file.seek(first)
            body = file.read(last - first + 1)
        count("served", len(body))
        if mode == "cut" and len(body) > 10000 and count("cut") % 2:
            self.wfile.write(body[:len(body) // 2])
            self.close_connection = True
        elif mode == "mute":
            for at in range(0, len(body), 50000):
                piece = body[at:at + 50000]
                self.wfile.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        words = [urllib.parse.unquote(word) for word in path.split("/")[1:]]
        mode = words[0] if words[0] in ("storm", "down", "cut", "whole", "mute", "changing", "elsewhere", "pages", "listless") else ""
        if mode:
            words = words[1:]
        if words[0] == "served":
            body = str(count("served", 0)).encode()
            count("served", -int(body))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            return self.wfile.write(body)
        if words[0] == "moved":
            return self.refuse(302, "Moved", Location="/web/" + "/".join(words[1:]))
        if mode == "down" or (mode == "storm" and count("storm") % 3):
            return self.refuse(503, "SlowDown")
        if mode == "elsewhere":
            return self.refuse(301, "PermanentRedirect", x_amz_bucket_region="eu-west-3")
        if words[0] == "web":
            if "private" in path and query != "key=KEY-OF-A-LINK":
                return self.refuse(403, "AccessDenied")
            return self.send_object(os.path.join(folder, *words[1:]), mode)
        problem = self.signature_problem(path, query) if words[0] != "public" else None
        if problem:
            return self.refuse(403, problem)
        if len(words) == 1 or not words[1]:
            if mode == "listless":
                return self.refuse(404, "NotFound")
            return self.list(words[0], query, 3 if mode == "pages" else 1000)
        return self.send_object(os.path.join(folder, *words), mode)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):  # a client that hung up
        pass


server = Server(("127.0.0.1", 0), Store)
server.daemon_threads = True
print(server.server_address[1], flush=True)
threading.Timer(float(sys.argv[2]), lambda: os._exit(0)).start()
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
