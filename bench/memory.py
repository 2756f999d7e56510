# SPDX-License-Identifier: Apache-2.0
"""Peak memory of profile and pack on inputs that are made to take much of it.

    python3 bench/memory.py build/gpuhours WORK [THREADS]

WORK is a new folder that takes 3 GB while it runs. Prints for each input the exit code, the peak of resident memory, and what the program said
of it. The bound is 1 GiB.
"""
import os
import subprocess
import sys

program, work = sys.argv[1:3]
threads = sys.argv[3] if len(sys.argv) > 3 else "2"
here = os.path.dirname(os.path.abspath(__file__))
tokenizer = os.path.join(here, "../test/data/small_tokenizer.json")
MIB = (b"the quick brown fox " * 52429)[:1 << 20]


def rows(count, mebibytes, before=b'{"text": "', after=b'"}\n'):
    for _ in range(count):
        yield before
        for _ in range(mebibytes):
            yield MIB
        yield after


def list_of_rows():
    yield b"[" + b"".join(rows(1, 1)).strip()
    for _ in range(8):
        yield b","
        yield from rows(1, 60)
    yield b"]"


inputs = {
    "a row of 900 MiB between two others": ("long.jsonl", lambda: (x for r in (rows(1, 0), rows(1, 900), rows(1, 0)) for x in r)),
    "8 rows of 60 MiB": ("rows.jsonl", lambda: rows(8, 60)),
    "8 rows of 30 MiB": ("half.jsonl", lambda: rows(8, 30)),
    "a JSON list of 8 items of 60 MiB": ("list.json", list_of_rows),
    "CSV, 8 cells of 60 MiB": ("cells.csv", lambda: (x for r in ([b"prompt,completion\n"], rows(8, 60, b'"', b'",x\n')) for x in r)),
    "a CSV cell of 900 MiB": ("cell.csv", lambda: (x for r in ([b"prompt,completion\n"], rows(1, 900, b'"', b'",x\n')) for x in r)),
    "10,000,000 rows of a few bytes": ("tiny.jsonl", lambda: (b'{"text": "%d"}\n' % i for i in range(10000000))),
    "100,000,000 lines of a letter": ("tiny.txt", lambda: (b"a\n" * 1000000 for _ in range(100))),
}


def run(what, *words):
    child = subprocess.Popen([program, *words, "--tokenizer", tokenizer, "--template", "plain", "--ledger", "off", "--quiet", "--bad-rows", "skip",
                              "--threads", threads], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = child.stdout.read().splitlines()
    used = os.wait4(child.pid, 0)
    said = next((line.strip() for line in said if "examples in" in line or line.startswith("gpuhours:") or "tokens" in line), "")
    print(f"{what}: exit {os.waitstatus_to_exitcode(used[1])}, {used[2].ru_maxrss / 1024:.0f} MiB: {said.replace(work + '/', '')[:110]}", flush=True)


os.makedirs(work)
out = os.path.join(work, "out")
for what, (name, make) in inputs.items():
    path = os.path.join(work, name)
    with open(path, "wb") as file:
        file.writelines(make())
    run(what, "profile", path, "--out", out)
    os.remove(out) if os.path.exists(out) else None
    if name in ("half.jsonl", "tiny.jsonl"):
        run("pack, " + what, "pack", path, "--out", out, "--context", "512")
        subprocess.run(["rm", "-r", out])
    os.remove(path)
wide = os.path.join(work, "group.parquet")
subprocess.run([sys.executable, os.path.join(here, "../test/stand_ins/write_parquet.py"), wide, "1", "1000", "1000", "2000"], check=True)
run("Parquet, one row group of 2 GB", "profile", wide, "--out", out)
run("the same, all of it as text", "profile", wide, "--out", out, "--format", "text", "--fields", "text=embedding")
os.remove(wide)
subprocess.run([sys.executable, os.path.join(here, "../test/stand_ins/write_parquet.py"), wide, "1", "200", "1000000"], check=True)
run("Parquet, a page of 200 MB", "profile", wide, "--out", out, "--format", "text", "--fields", "text=embedding")
os.remove(wide)
for packer in ("zstd -1 -q", "xz -0", "gzip -1", "bzip2 -1"):
    bomb = os.path.join(work, "bomb.jsonl." + packer.split()[0])
    subprocess.run(f"head -c 2000000000 /dev/zero | tr '\\0' a | {packer} > {bomb}", shell=True, check=True)
    run(f"2 GB of one letter, {packer.split()[0]}", "profile", bomb, "--out", out)
    os.remove(bomb)
