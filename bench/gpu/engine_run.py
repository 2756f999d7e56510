# SPDX-License-Identifier: Apache-2.0
"""What the scripts beside this one share: model folders, documents, and runs of build/gpuhours.

The tokenizer is test/data/tiny_model's: a token per byte, and 256 after every document; so PyTorch can be given the
very ids that the engine reads.
"""
import json
import os
import shutil
import subprocess
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TINY = os.path.join(ROOT, "test", "data", "tiny_model")
PROGRAM = os.path.join(ROOT, "build", "gpuhours")
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
END = 256


def work_folder(wanted_gib):
    """A folder in memory where there is room, else on the disk; the caller removes it."""
    shm = "/dev/shm"
    free = shutil.disk_usage(shm).free / 2**30 if os.path.isdir(shm) else 0
    return tempfile.mkdtemp(prefix="gpuhours-", dir=shm if free > 1.5 * wanted_gib else None)


def ids_of(text):
    return list(text.encode()) + [END]


def write_rows(path, texts):
    with open(path, "w") as file:
        for text in texts:
            file.write(json.dumps({"text": text}) + "\n")
    return path


def check_tokenizer(texts, folder):
    """The engine's own ids of a few texts, or an error: everything else rests on them."""
    path = os.path.join(folder, "texts.txt")
    with open(path, "w") as file:
        file.write("\n".join(texts) + "\n")
    done = subprocess.run([PROGRAM, "tokenize", "--tokenizer", TINY, path], capture_output=True, text=True, check=True)
    for line, text in zip(done.stdout.splitlines(), texts):
        if json.loads(line) != list(text.encode()):
            raise SystemExit(f"gpuhours tokenize gave {line[:80]} of {text[:40]!r}")


def add_tokenizer(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(TINY, name), folder)


def train(model, rows, out, limit, threads=None, **options):
    """Runs gpuhours train; returns (metrics by step, seconds, what it said if it failed). threads: of the CPU's loops."""
    command = [PROGRAM, "train", "--model", model, "--data", rows, "--labels", "all", "--format", "text", "--out", out, "--quiet"]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(ROOT, "build") + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    if threads:
        env["OMP_NUM_THREADS"] = str(threads)
    began, problem = time.time(), None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=env, cwd=ROOT)
        if done.returncode:
            problem = f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}"
    except subprocess.TimeoutExpired:
        problem = f"more than {limit:.0f} s"
    path, metrics = os.path.join(out, "metrics.jsonl"), []
    if os.path.exists(path):
        for line in open(path):
            try:
                metrics.append(json.loads(line))
            except ValueError:
                break
    return metrics, time.time() - began, problem
