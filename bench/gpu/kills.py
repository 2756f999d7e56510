# SPDX-License-Identifier: Apache-2.0
"""Kills `gpuhours train` with SIGKILL at random moments, many runs side by side on one GPU.

    DEVICE=cuda KILLS=200 LIMIT_S=150 CHAINS=10 SEED=1 OUT=folder python3 bench/gpu/kills.py
    DEVICE=cpu KILLS=40 LIMIT_S=60 CHAINS=2 python3 bench/gpu/kills.py

Each recipe is first trained twice without a kill: the two must have the same bits. Then each chain starts a run, kills it and
starts it again in the same folder. A third of the kills come in the first second, a third while a checkpoint is being written, a
third anywhere in the run. A run that reaches its end must have the bits of the run that was not killed, its weights and the loss
of each step; the last run of each chain is not killed. Needs build/gpuhours; GPUHOURS names another.

$OUT/kills.jsonl has a line for each run, written at once. Ends by itself after LIMIT_S, or on SIGTERM, with what it has.
Exit status: 0 as many kills as asked and nothing differed, 1 otherwise.
"""
import collections
import ctypes
import glob
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BEGAN = time.monotonic()
DEVICE = os.environ.get("DEVICE", "cuda")
KILLS = int(os.environ.get("KILLS", 200))
LIMIT_S = float(os.environ.get("LIMIT_S", 150))
CHAINS = int(os.environ.get("CHAINS", 10))
SEED = int(os.environ.get("SEED", time.time()))
OUT = os.environ.get("OUT", "build/gpu")
PROGRAM = os.path.abspath(os.environ.get("GPUHOURS", "build/gpuhours"))
TOKENIZER = "test/data/tiny_model"

RECIPES = {
    "lora": "--method lora --rank 8 --dropout 0.1",
    "full": "--method full --decay 0.1",
    "qlora": "--method qlora --rank 8",
}
if DEVICE == "cuda":  # imitated on a processor, a thousand times slower
    RECIPES["fp8"] = "--method lora --rank 16 --precision fp8"
ROWS = 512 if DEVICE == "cuda" else 64
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # of each of the many runs
STEPS = "--context 256 --micro-batch 4 --accumulation 2 --epochs 4 --rate 0.003 --save-every 2 --seed 3 --quiet --ledger off"
SHAPE = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512,
         "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 1000.0, "tie_word_embeddings": True}


def left():
    return LIMIT_S - (time.monotonic() - BEGAN)


def make_inputs(work):
    """A model of a few layers and rows of many lengths, so that no two micro-batches have the same shape."""
    os.makedirs(f"{work}/model")
    json.dump(SHAPE, open(f"{work}/model/config.json", "w"))
    for path in glob.glob(f"{TOKENIZER}/tokenizer*.json"):
        shutil.copy(path, f"{work}/model")
    draw = random.Random(7)
    with open(f"{work}/rows.jsonl", "w") as out:
        for _ in range(ROWS):
            words = "".join(draw.choice("abcdefgh ijklmnop qrstuvwxyz ") for _ in range(draw.randrange(3, 250)))
            out.write(json.dumps({"text": words}) + "\n")


def begin(work, recipe, folder):
    """Starts a run, which dies with this process."""
    line = [PROGRAM, "train", "--random-weights", "--device", DEVICE, "--model", f"{work}/model", "--data", f"{work}/rows.jsonl",
            "--out", folder, "--threads", "1", *STEPS.split(), *RECIPES[recipe].split()]
    libc = ctypes.CDLL(None)
    said = open(f"{folder}.said", "w")
    return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
                            env=os.environ | ONE_THREAD, preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))


def said(folder):
    return " ".join(open(f"{folder}.said").read().split())[-300:]


def result(folder):
    """What must be the same: the sum of each file of weights, and the loss of each step."""
    sums = {os.path.basename(path): hashlib.sha256(open(path, "rb").read()).hexdigest()
            for path in sorted(glob.glob(f"{folder}/*.safetensors"))}
    losses = [json.loads(line)["loss"] for line in open(f"{folder}/metrics.jsonl")]
    return {"weights": sums, "losses": losses}


def difference(expected, got):
    if expected == got:
        return ""
    if not got["weights"]:
        return "no weights were written"
    pairs = list(zip(expected["losses"], got["losses"]))
    steps = [i + 1 for i, (a, b) in enumerate(pairs) if a != b]
    if len(got["losses"]) != len(expected["losses"]):
        return f"{len(got['losses'])} steps in metrics.jsonl, not {len(expected['losses'])}"
    where = f"losses of {len(steps)} of {len(pairs)} steps, the first at {steps[0]}" if steps else "the weights alone"
    return f"differ: {where}; {[name for name in got['weights'] if got['weights'][name] != expected['weights'].get(name)]}"


def halves(folder):
    """Checkpoints being written: a folder without DONE. Moved aside or removed while one looks: not one."""
    return [path for path in glob.glob(f"{folder}/checkpoints/*") if os.path.isdir(path) and not os.path.exists(f"{path}/DONE")]


def wait_for(process, until):
    """Whether it still runs at that moment."""
    try:
        process.wait(max(0, until - time.monotonic()))
        return False
    except subprocess.TimeoutExpired:
        return True


def wait_for_save(process, folder, skip, until):
    """Until so many saves have begun and another is being written; whether it still runs."""
    seen = set()
    while process.poll() is None and time.monotonic() < until:
        seen.update(halves(folder))
        if len(seen) > skip:
            return True
        time.sleep(0.0003)
    return process.poll() is None


def kill_at_random(process, folder, draw, seconds, number):
    """The kind of moment where it was killed, None where it ended before."""
    kind = ("first second", "save", "anywhere")[number % 3]
    now = time.monotonic()
    if kind == "first second":
        runs = wait_for(process, now + draw.random())
    elif kind == "anywhere":
        runs = wait_for(process, now + draw.random() * seconds)
    else:
        runs = wait_for_save(process, folder, draw.randrange(12), now + 2 * seconds)
        runs = runs and wait_for(process, time.monotonic() + draw.random() * 0.004)
    if not runs:
        return None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return kind if process.returncode == -signal.SIGKILL else None


def note(event):
    with open(f"{OUT}/kills.jsonl", "a") as out:
        out.write(json.dumps(event) + "\n")


def judge(process, chain, recipe, folder, expected, kills):
    """What is wrong with a run that ended by itself."""
    wrong = f"exit status {process.returncode}: {said(folder)}" if process.returncode else difference(expected, result(folder))
    note({"event": "end", "chain": chain, "recipe": recipe, "kills": kills, "wrong": wrong})
    shutil.rmtree(folder, ignore_errors=True)


def chain(number, work, recipe, expected, seconds):
    draw, folder = random.Random(SEED * 1000 + number), f"{work}/chain{number}"
    kills, share = 0, -(-KILLS // CHAINS)
    while kills < share and left() > 1.5 * seconds:  # what the last run may take, which is not killed
        process = begin(work, recipe, folder)
        kind = kill_at_random(process, folder, draw, seconds, kills + number)
        if kind:
            kills += 1
            note({"event": "kill", "chain": number, "recipe": recipe, "at": kind, "halves": len(halves(folder)),
                  "checkpoints": len(glob.glob(f"{folder}/checkpoints/*/DONE"))})
        elif process.poll() is not None:
            judge(process, number, recipe, folder, expected, kills)
    process = begin(work, recipe, folder)
    if wait_for(process, time.monotonic() + max(1, left() - 1)):
        process.kill()
        process.wait()
        return note({"event": "cut", "chain": number, "recipe": recipe, "kills": kills})
    judge(process, number, recipe, folder, expected, kills)


def train_whole(work):
    """Each recipe twice, all at once: what the runs must have, by name, and the seconds of one of them."""
    began, runs = time.monotonic(), {}
    for recipe in RECIPES:
        for again in (0, 1):
            runs[recipe, again] = begin(work, recipe, f"{work}/{recipe}{again}")
    for process in runs.values():
        if wait_for(process, BEGAN + LIMIT_S / 2):
            process.kill()
            process.wait()
    seconds, expected = time.monotonic() - began, {}
    for recipe in RECIPES:
        first, second = f"{work}/{recipe}0", f"{work}/{recipe}1"
        if runs[recipe, 0].returncode or runs[recipe, 1].returncode:
            note({"event": "cannot run", "recipe": recipe, "wrong": said(first) or said(second) or "takes too long"})
            continue
        expected[recipe] = result(first)
        note({"event": "whole", "recipe": recipe, "steps": len(expected[recipe]["losses"]),
              "wrong": difference(expected[recipe], result(second))})
    return expected, seconds


def summary(seconds):
    events = [json.loads(line) for line in open(f"{OUT}/kills.jsonl")]
    of = collections.defaultdict(list)
    for event in events:
        of[event["event"]].append(event)
    kinds = collections.Counter(event["at"] for event in of["kill"])
    print(f"{len(of['kill'])} kills of train on {DEVICE}, seed {SEED}: " + ", ".join(f"{n} {kind}" for kind, n in kinds.items()))
    print(f"  {sum(event['halves'] > 0 for event in of['kill'])} left a half-written checkpoint, "
          f"{sum(event['checkpoints'] > 0 for event in of['kill'])} could go on from a whole one")
    print(f"  {len(of['end'])} runs reached their end after kills, {len(of['cut'])} cut off by the limit; "
          f"a run without kills {seconds:.1f} s, all {time.monotonic() - BEGAN:.0f} s")
    for event in of["cannot run"]:
        print(f"  {event['recipe']} cannot run here: {event['wrong']}")
    failures = [event for event in of["end"] + of["whole"] if event["wrong"]]
    for event in failures:
        print(f"  FAILED {event['event']} {event['recipe']} after {event.get('kills', 0)} kills: {event['wrong']}")
    print(f"  recipes: {', '.join(event['recipe'] for event in of['whole'])}; {len(failures)} failures")
    return len(of["kill"]) >= KILLS and of["end"] and not failures


def start_chain(*arguments):
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # dies with the first process, and its run with it
        try:
            chain(*arguments)
        finally:
            os._exit(0)
    return pid


def main():
    os.makedirs(OUT, exist_ok=True)
    open(f"{OUT}/kills.jsonl", "w").close()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seconds = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        chains = []
        try:
            make_inputs(work)
            expected, seconds = train_whole(work)
            recipes = list(expected)
            chains = [start_chain(i, work, recipes[i % len(recipes)], expected[recipes[i % len(recipes)]], seconds)
                      for i in range(CHAINS) if recipes]
            while chains and left() > 0:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                chains = [each for each in chains if each != pid]
                time.sleep(0.01)
        finally:
            for pid in chains:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            good = summary(seconds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
