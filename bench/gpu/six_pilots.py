# SPDX-License-Identifier: Apache-2.0
"""Parts of six_pilots.sh, which says what they are for.

    six_pilots.py rows ROWS [gsm8k|glaive|c4|full]  JSON lines whose texts have GSM8K's first lengths, in tokens of a byte, lengths drawn
                                                 from the histogram of conversations with tools or from web pages, or 1,024 tokens each
    six_pilots.py share ROWS EVERY               of the rows that are evaluated: 64, as rows_trainer.py holds out
    six_pilots.py evaluations ROWS BATCH EVERY   in an epoch; the last step ends with one
    six_pilots.py judge FOLDER NAME              one JSON line: train() against both plans
    six_pilots.py forecast PLAN NAME             one JSON line: the seconds of train() that a plan expects (whole_runs.sh)
    six_pilots.py took RESULT NAME FORECASTS     one JSON line: train() against it
    six_pilots.py summary LINES.jsonl            errors over all configurations
    six_pilots.py record FOLDER…                 JSON lines for bench/results: seconds of each step, widths of each micro-batch
    six_pilots.py stand-in --rows … --out …      steps that sleep, with a transient, instead of rows_trainer.py
    six_pilots.py card PILOT.json                names a GPU in the pilot of a stand-in
"""
import argparse
import json
import os
import statistics
import random
import sys
import time

LENGTHS = "test/data/gsm8k_lengths.csv"
WEB = "test/data/c4_lengths.csv"
HISTOGRAM, BIN = "bench/gpu/glaive_lengths.csv", 64
HELD_OUT = 64
FULL = 1024


def numbers(path):
    return [list(map(int, line.split(","))) for line in open(path) if line[0].isdigit()]


def lengths_of(data, count):
    if data == "full":
        return [FULL] * count
    if data == "gsm8k":
        return [length for length, _ in numbers(LENGTHS)][:count]
    draw, bins = random.Random(15), numbers(HISTOGRAM)
    if data == "c4":  # each page a tenth longer or shorter: 300 lengths would have too few widths
        return [min(2 * FULL, round(length * draw.uniform(0.9, 1.1))) for length in draw.choices([length for length, _ in numbers(WEB)], k=count)]
    drawn = draw.choices([first for first, _ in bins], [rows for _, rows in bins], k=count)
    return [first + draw.randrange(BIN) for first in drawn]


def rows(count, data="gsm8k"):
    words = random.Random(7)
    pool = "".join(words.choice("abcdefghij klmnop qrstuvwxyz ") for _ in range(70000))
    for length in lengths_of(data, int(count)):
        start = words.randrange(60000)
        print(json.dumps({"text": pool[start:start + length - 1]}))


def share(count, every):
    print(HELD_OUT / int(count) if int(every) else 0)


def evaluations(count, batch, every):
    steps = -(-int(count) // int(batch))
    print(-(-steps // int(every)) if int(every) else 0)


def judge(folder, name):
    def read(path):
        return json.load(open(f"{folder}/{path}"))

    def forecast(path, seconds):
        if not os.path.exists(f"{folder}/{path}"):
            return None
        plan = read(path)
        wall = {p: round(3600 * plan["wall_hours"][p], 2) for p in ("p10", "p50", "p90")}
        parts = {part["name"]: round(part["seconds"], 2) for part in plan["overheads"] if part["seconds"]}
        return dict(wall, error_percent=round(100 * (wall["p50"] / seconds - 1), 2),
                    width_percent=round(50 * (wall["p90"] - wall["p10"]) / wall["p50"], 2),
                    held=wall["p10"] <= seconds <= wall["p90"], parts=parts)

    result = read("run/result.json")
    pilot = read("pilot.json") if os.path.exists(f"{folder}/pilot.json") else None
    seconds = result["train_seconds"]
    stamps = [json.loads(line) for line in open(f"{folder}/run/stamps.jsonl")]
    print(json.dumps(dict(
        name=name, train_seconds=round(seconds, 2), steps=stamps[-1]["step"], tokens=stamps[-1]["tokens"],
        widths=len({tuple(shape) for shape in result["micro_batches"]}),
        planned={key: round(read("before.json")["workload"][key]) for key in ("steps", "processed_tokens", "distinct_widths")},
        before=forecast("before.json", seconds), after=forecast("after.json", seconds),
        pilot=pilot and dict(steps=pilot["steps"], warmup_steps=pilot["warmup_steps"], steady=pilot["steady"], verdict=pilot["verdict"],
                   seconds=round(pilot["elapsed_seconds"], 1), startup_seconds=pilot["apart"]["startup_seconds"],
                   tokens_per_second=pilot["tokens_per_second"], transient=pilot["transient"], stalls=pilot["stalls"]))),
        flush=True)


def forecast(path, name):
    plan = json.load(open(path))
    if not plan["memory"]["fits"]:
        sys.exit(f"{name}: does not fit by the plan, so there is no run to forecast")
    parts = {part["name"]: part["seconds"] for part in plan["overheads"]}
    loading = parts["loading weights"]  # is not in train()
    wall = {p: round(3600 * plan["wall_hours"][p] - loading, 2) for p in ("p10", "p50", "p90")}
    print(json.dumps(dict(name=name, **wall, parts={key: round(value, 2) for key, value in parts.items() if value})))


def took(path, name, forecasts):
    before = [line for line in map(json.loads, open(forecasts)) if line["name"] == name][0]
    seconds = json.load(open(path))["train_seconds"]
    print(json.dumps(dict(name=name, train_seconds=round(seconds, 2), forecast=before,
                          error_percent=round(100 * (before["p50"] / seconds - 1), 2),
                          held=before["p10"] <= seconds <= before["p90"])), flush=True)


def record(*folders):
    def seconds(path):
        stamps = [json.loads(line)["seconds"] for line in open(path)]
        return [round(after - before, 3) for before, after in zip(stamps, stamps[1:])]

    for folder in folders:
        def wall(path):
            if not os.path.exists(f"{folder}/{path}"):
                return None
            hours = json.load(open(f"{folder}/{path}"))["wall_hours"]
            return {p: round(3600 * hours[p], 2) for p in ("p10", "p50", "p90")}

        result = json.load(open(f"{folder}/run/result.json"))
        print(json.dumps(dict(
            name=os.path.basename(folder.rstrip("/")), train_seconds=round(result["train_seconds"], 2), without_pilot=wall("before.json"),
            with_pilot=wall("after.json"), run_seconds=seconds(f"{folder}/run/stamps.jsonl"),
            run_widths=[width for _, width in result["micro_batches"]],
            pilot_seconds=seconds(f"{folder}/piloted/stamps.jsonl") if os.path.exists(f"{folder}/piloted/stamps.jsonl") else None),
            separators=(",", ":")))


def summary(path):
    every = [json.loads(line) for line in open(path)]
    for which in ("before", "after"):
        lines = [line for line in every if line[which]]
        errors = sorted(abs(line[which]["error_percent"]) for line in lines)
        if errors:
            print(json.dumps(dict(plan=which, configurations=len(errors), median_error_percent=round(statistics.median(errors), 2),
                                  worst_error_percent=errors[-1], held=sum(line[which]["held"] for line in lines),
                                  mean_width_percent=round(sum(line[which]["width_percent"] for line in lines) / len(lines), 2))))


def stand_in(given):
    parser = argparse.ArgumentParser()
    for name in ("--rows", "--out"):
        parser.add_argument(name)
    for name in ("--micro-batch", "--accumulation", "--evaluate-every", "--save-every", "--multiple"):
        parser.add_argument(name, type=int, default=1)
    for name in ("--group", "--checkpointing"):
        parser.add_argument(name, action="store_true")
    given = parser.parse_args(given)
    lengths = [len(json.loads(line)["text"]) + 1 for line in open(given.rows)]
    random.Random(1).shuffle(lengths)
    os.makedirs(given.out, exist_ok=True)
    batch, steps = given.micro_batch * given.accumulation, -(-len(lengths) // (given.micro_batch * given.accumulation))
    stamps, seen, shapes, tokens, begin = open(f"{given.out}/stamps.jsonl", "w", buffering=1), set(), [], 0, time.monotonic()
    for step in range(1, steps + 1):
        wait = 0.04 + 0.3 * (step == 1)
        mine = lengths[(step - 1) * batch:step * batch]
        for first in range(0, len(mine), given.micro_batch):
            part = mine[first:first + given.micro_batch]
            shape = [len(part), -(-max(part) // given.multiple) * given.multiple]
            wait += 0.02 if tuple(shape) not in seen else 0
            seen.add(tuple(shape))
            shapes.append(shape)
            tokens += shape[0] * shape[1]
            wait += 4e-6 * shape[0] * shape[1]  # below an H200's peak
        time.sleep(wait)
        stamps.write(json.dumps({"step": step, "seconds": time.monotonic(), "tokens": tokens}) + "\n")
        sys.stderr.write(f"\r{100 * step // steps:3d}%|##   | {step}/{steps} [00:{step % 60:02d}<00:10, 9.9it/s]")
        if step % 10 == 0:
            print(f"\n{{'loss': '2.1', 'grad_norm': '0.5', 'learning_rate': '1e-04', 'epoch': '0.1', "
                  f"'num_input_tokens_seen': {tokens}}}", flush=True)
        sys.stderr.flush()
    with open(f"{given.out}/result.json", "w") as file:
        json.dump({"train_seconds": time.monotonic() - begin, "micro_batches": shapes}, file)


def card(path):
    pilot = json.load(open(path))
    pilot["gpu"]["name"], pilot["gpu"]["count"] = "NVIDIA H200", 1
    json.dump(pilot, open(path, "w"))


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    stand_in(rest) if command == "stand-in" else globals()[command](*rest)
