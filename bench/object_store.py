# SPDX-License-Identifier: Apache-2.0
"""Profiles files on a real S3 server on loopback and on the disk, and compares results, time and memory.

    npm install --ignore-scripts --prefix build/s3rver s3rver
    python3 bench/object_store.py build/gpuhours build/s3rver WORK FILE...
    AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… python3 bench/object_store.py build/gpuhours PORT WORK FILE...

The server is npm's s3rver, which is started, or one that listens on PORT (Ceph's radosgw). WORK is a new folder for the server's copies. Each file is put into a bucket under a key with spaces and "=", profiled from the disk and from
the bucket in turn, twice each; the lengths of all examples have to be the same bytes. Then the same through a proxy that answers
half of all requests with 503 or cuts their bodies, and with a key that it does not know (s3rver 3.7.1 does not check signatures of
version 4; test/stand_ins/object_store.py does). Last, everything that was printed is searched for the secret.
"""
import datetime
import hashlib
import hmac
import http.client
import http.server
import os
import random
import subprocess
import sys
import threading
import time
import urllib.parse

program, server, work, *files = sys.argv[1:]
is_running = server.isdigit()
KEY, SECRET = (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]) if is_running else ("S3RVER", "S3RVER-not-to-be-seen")
said = ""


def sign(method, path, host):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = now[:8] + "/us-east-1/s3/aws4_request"
    canonical = f"{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:{now}\n\n" \
                "host;x-amz-content-sha256;x-amz-date\nUNSIGNED-PAYLOAD"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n" + hashlib.sha256(canonical.encode()).hexdigest()
    key = ("AWS4" + SECRET).encode()
    for word in scope.split("/"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return {"Host": host, "x-amz-date": now, "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, "
                             f"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"}


def put(port, path, file=None):
    host = f"127.0.0.1:{port}"
    path = urllib.parse.quote(path, safe="/-._~")
    connection = http.client.HTTPConnection(host)
    headers = sign("PUT", path, host)
    headers["Content-Length"] = str(os.path.getsize(file) if file else 0)
    connection.request("PUT", path, open(file, "rb") if file else b"", headers)
    answer = connection.getresponse()
    assert answer.status == 200, (answer.status, answer.read()[:300])


def profile(word, port, **more):
    """(seconds, processor seconds, peak MiB, lengths, errors)"""
    global said
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
                   "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}", **more}
    out = os.path.join(work, "lengths")
    if os.path.exists(out):
        os.remove(out)
    start = time.time()
    with open(os.path.join(work, "said"), "w") as log:
        child = subprocess.Popen([program, "profile", word, "--model", "llama-3.1-8b", "--lengths", out, "--out", os.path.join(work, "profile.json")],
                                 stdout=log, stderr=log, env=environment)
        used = os.wait4(child.pid, 0)[2]
    seconds = time.time() - start
    text = open(os.path.join(work, "said")).read()
    said += text + (open(os.path.join(work, "profile.json")).read() if os.path.exists(os.path.join(work, "profile.json")) else "")
    lengths = hashlib.md5(open(out, "rb").read()).hexdigest() if os.path.exists(out) else None
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, lengths, text.strip().splitlines()[-1]


class Storm(http.server.BaseHTTPRequestHandler):
    """Passes requests on; a quarter is answered with 503, a quarter of the bodies is cut."""
    protocol_version = "HTTP/1.1"
    dice = random.Random(5)
    target = None
    storms = cuts = 0

    def log_message(self, *words):
        pass

    def do_GET(self):
        dice = self.dice.random()
        if dice < 0.25:
            Storm.storms += 1
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        connection = http.client.HTTPConnection(f"127.0.0.1:{self.target}")
        connection.request("GET", self.path, headers=dict(self.headers))
        answer = connection.getresponse()
        size = int(answer.headers.get("Content-Length", 0))
        self.send_response(answer.status)
        for name in ("Content-Length", "Content-Range", "ETag", "Content-Type"):
            if answer.headers.get(name):
                self.send_header(name, answer.headers[name])
        self.end_headers()
        left = size // 3 if dice < 0.5 and size > 100000 else size
        Storm.cuts += left < size
        self.close_connection = left < size
        while left:
            piece = answer.read(min(left, 1 << 20))
            if not piece:
                break
            self.wfile.write(piece)
            left -= len(piece)
        connection.close()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        pass


SERVER = """
const S3rver = require(MODULE);
require(MODULE + '/lib/models/account').DUMMY_ACCOUNT.createKeyPair(KEY, SECRET);
new S3rver({ port: 0, address: '127.0.0.1', silent: true, vhostBuckets: false, directory: FOLDER }).run((problem, at) => console.log(at.port));
"""
os.makedirs(work)
for name, value in (("MODULE", os.path.abspath(server) + "/node_modules/s3rver"), ("KEY", KEY), ("SECRET", SECRET),
                    ("FOLDER", os.path.abspath(work) + "/objects")):
    SERVER = SERVER.replace(name, repr(value))
node = None if is_running else subprocess.Popen(["node", "-e", SERVER], stdout=subprocess.PIPE, text=True)
port = int(server if is_running else node.stdout.readline())
try:
    put(port, "/data")
    proxy = Server(("127.0.0.1", 0), Storm)
    Storm.target = port
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    for file in files:
        key = "a b/c=1/" + os.path.basename(file)
        put(port, "/data/" + key, file)
        address = "s3://data/" + key
        profile(file, port)
        disk, store = [], []
        for _ in range(2):
            disk.append(profile(file, port))
            store.append(profile(address, port))
        best = min(disk)[0], min(store)[0]
        same = disk[0][3] and len({run[3] for run in disk + store}) == 1
        print(f"{os.path.basename(file)}: {os.path.getsize(file) / 1e6:.0f} MB; disk {best[0]:.1f} s ({min(disk)[1]:.1f} s of processor), "
              f"store {best[1]:.1f} s ({min(store)[1]:.1f} s); rate {100 * best[0] / best[1]:.0f} % of the disk's; peak "
              f"{max(run[2] for run in disk):.0f} and {max(run[2] for run in store):.0f} MiB; lengths {'the same' if same else 'DIFFER'}", flush=True)
        stormy = profile(address, proxy.server_address[1], AWS_MAX_ATTEMPTS="12")
        print(f"  with 503 ({Storm.storms}) and bodies cut short ({Storm.cuts}): {stormy[0]:.1f} s; "
              f"lengths {'the same' if stormy[3] == disk[0][3] else 'DIFFER: ' + stormy[4]}", flush=True)
    print("  another access key:", profile(address, port, AWS_ACCESS_KEY_ID="OTHER")[4])
    print("  another secret:", profile(address, port, AWS_SECRET_ACCESS_KEY="another")[4])
    print("  an absent key:", profile("s3://data/absent", port)[4])
    print("  secret in what was printed and written:", said.count(SECRET))
finally:
    if node:
        node.terminate()
