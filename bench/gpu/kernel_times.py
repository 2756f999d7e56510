# SPDX-License-Identifier: Apache-2.0
"""Times of the kernels of the engine's steps, by Nsight Compute.

    python3 bench/gpu/kernel_times.py [--kernels REGEX] [--skip N] [--count N] [--csv FILE] llama-3.1-8b lora fp8 4096 4 3

The words are bench/engine's. Kernels run one after the other, with pauses between them, so that none meets the power limit
that a step is under: together they take less than a step does. A first run, which is not measured, tunes the products and keeps
its choices; the second has them from its beginning. Prints a line per kernel and launch shape: milliseconds in all, launches, and
microseconds of each group of launches that take about as long.
"""
import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile

MILLISECONDS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1, "msecond": 1, "s": 1e3, "second": 1e3}
NEAR = 1.12  # of the one before: the same group


def measure(options, path):
    command = ["ncu", "--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--csv", "--log-file", path,
               "--launch-skip", str(options.skip), "--launch-count", str(options.count)]
    if options.kernels:
        command += ["--kernel-name", "regex:" + options.kernels]
    engine = ["build/fast/bench/engine", *options.words]
    return subprocess.run(engine).returncode or subprocess.run(command + engine).returncode


def read(path):
    """Milliseconds of each launch, by kernel, block and grid."""
    launches = {}
    with open(path) as file:
        for row in csv.DictReader(line for line in file if line.startswith('"')):
            name = re.sub(r"\(.*", "", row["Kernel Name"]).removeprefix("void ")
            value = float(row["Metric Value"].replace(",", "")) * MILLISECONDS[row["Metric Unit"]]
            launches.setdefault((name, row["Block Size"], row["Grid Size"]), []).append(value)
    return launches


def groups(values):
    found = []
    for value in sorted(values):
        if found and value < found[-1][-1] * NEAR + 0.001:
            found[-1].append(value)
        else:
            found.append([value])
    return ", ".join(f"{len(g)} × {1e3 * sum(g) / len(g):.1f}" for g in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernels", help="only those whose name matches")
    parser.add_argument("--skip", type=int, default=0, help="launches before")
    parser.add_argument("--count", type=int, default=3000, help="launches at most")
    parser.add_argument("--csv", help="keeps what ncu wrote")
    parser.add_argument("words", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.csv or os.path.join(folder, "kernels.csv")
        failed = measure(options, path)
        launches = {} if failed else read(path)
    for (name, block, grid), values in sorted(launches.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(values):9.2f} ms  {name[:70]} {block} {grid}: {groups(values)} µs")
    return failed or not launches


sys.exit(main())
