#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `gpuhours watch` costs the trainer that it wraps, at a thousand log lines a second.

    python3 bench/wrapped.py [PROGRAM] [PAIRS]      bare and wrapped runs in turns; medians over the pairs, with
                                                    their standard errors
    python3 bench/wrapped.py trainer STEPS FILE     the trainer: a millisecond of work and a line for each step

The trainer measures itself: CPU time, and the wall time of its steps. The bar is 0.5 % more of either, with no process left
behind. On a machine with other work the wall time says nothing; the CPU time, which has the writing of lines in it, does. There,
`chrt -f 1` before the command lets the trainer reach its thousand lines a second.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = 1500


def work(rounds):
    total = 0
    for i in range(rounds):
        total += i * i
    return total


def calibrate():
    """Rounds that take a millisecond of CPU time."""
    best = min(timed(20000) for _ in range(20))
    return int(20000 * 0.95e-3 / best)


def timed(rounds):
    began = time.process_time()
    work(rounds)
    return time.process_time() - began


def trainer(steps, rounds, file):
    cpu, wall = time.process_time(), time.monotonic()
    for step in range(1, steps + 1):
        work(rounds)
        print(json.dumps({"step": step, "total_steps": steps, "loss": 1.5, "num_input_tokens_seen": 4096 * step}), flush=True)
    with open(file, "w") as out:
        json.dump([time.process_time() - cpu, time.monotonic() - wall], out)


def run(before, rounds, folder):
    """CPU and wall seconds of the trainer, and CPU seconds of what is around it."""
    file = os.path.join(folder, "times.json")
    command = before + [sys.executable, os.path.abspath(__file__), "trainer", str(STEPS), str(rounds), file]
    with open(os.path.join(folder, "log"), "w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "WRAPPED_MARK": folder})
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(open(os.path.join(folder, "log")).read()[-500:])
    cpu, wall = json.load(open(file))
    return cpu, wall, usage.ru_utime + usage.ru_stime - cpu


def left(folder):
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            count += f"WRAPPED_MARK={folder}".encode() in open(f"/proc/{pid}/environ", "rb").read()
        except OSError:
            pass
    return count


def error_of_median(values):
    """Of normal values; their deviation is taken from the median distance, which outliers do not move."""
    middle = statistics.median(values)
    return 1.2533 * 1.4826 * statistics.median(abs(value - middle) for value in values) / len(values) ** 0.5


def main(program, pairs):
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "plan.json")
        with open(plan, "w") as out:
            subprocess.run([program, "plan", "--model", "llama-3.2-1b", "--tokens", "16M", "--gpu", "h200", "--stack", "hf-peft",
                            "--search", "off", "--ledger", "off", "--quiet", "--json"], stdout=out, check=True)
        wrapped = [program, "watch", "--quiet", "--ledger", "off", "--plan", plan, "--tokens-per-step", "4096", "--"]
        rounds, rows = calibrate(), []
        for pair in range(pairs):  # which of the two comes first takes turns, too
            two = [run(wrapped if (pair + i) % 2 else [], rounds, folder) for i in range(2)]
            bare, under = two if pair % 2 == 0 else two[::-1]
            rows.append((under[0] / bare[0] - 1, under[1] / bare[1] - 1, STEPS / under[1], under[2]))
        columns = list(zip(*rows))
        cpu, wall, rate, own = map(statistics.median, columns)
        cpu_error, wall_error = (error_of_median(column) for column in columns[:2])
        print(f"{pairs} pairs, {rate:.0f} lines/s: the trainer's CPU time {100 * cpu:+.2f} ± {100 * cpu_error:.2f} %, "
              f"wall time {100 * wall:+.2f} ± {100 * wall_error:.2f} % (limit 0.5); "
              f"gpuhours itself {own:.2f} s of CPU in {STEPS / rate:.1f} s; processes left: {left(folder)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["trainer"]:
        trainer(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "build/gpuhours", int(sys.argv[2]) if len(sys.argv) > 2 else 9)
