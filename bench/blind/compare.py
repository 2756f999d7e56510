#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forecasts a blind collection and holds it against what was measured.

    python3 bench/blind/compare.py bench/blind/sixth.jsonl [build/gpuhours] [TABLE.csv]

Prints a row a run as Markdown, then how many are inside by group; TABLE.csv gets rows as in speeds.csv.
Rates of steps and whole runs hold the lengths of examples where the source leaves them out.
"""
import csv, json, math, os, shlex, subprocess, sys

GIB = 1 << 30
COMMAND = "plan --search off --ledger off --quiet --json"


def plan(program, run):
    words = shlex.split(run["options"])
    if "--tokens" not in words:
        words += ["--tokens", "2000M"]
    if not run.get("hours"):
        words += ["--failed-runs", "0"]
    out = subprocess.run([program] + shlex.split(COMMAND) + words, capture_output=True, text=True)
    try:
        return json.loads(out.stdout)
    except ValueError:
        return {"error": out.stderr.strip()[:150]}


def speeds(run, answer):
    """What was measured and the forecast's P10, P50 and P90 of it, as rates."""
    tokens = answer["tokens_per_second"]
    if run.get("tokens_per_second"):
        return "tokens/s", run["tokens_per_second"], [tokens[p] for p in ("p10", "p50", "p90")]
    if run.get("hours"):
        if "--steps" not in run["options"] and "--tokens" not in run["options"]:
            return None  # how long the run was is not among its options
        return "1/h", 1 / run["hours"], [1 / answer["wall_hours"][p] for p in ("p90", "p50", "p10")]
    if run.get("seconds_per_step"):
        seconds = answer["step"]["seconds"]
        known = "--mean-length" in run["options"] or "--packing on" in run["options"]
        width = tokens if known else {p: 1 / answer["wall_hours"][q] for p, q in (("p10", "p90"), ("p50", "p50"), ("p90", "p10"))}
        return "steps/s", 1 / run["seconds_per_step"], [width[p] / width["p50"] / seconds for p in ("p10", "p50", "p90")]
    return None


def main():
    runs = [json.loads(line) for line in open(sys.argv[1])]
    program = sys.argv[2] if len(sys.argv) > 2 else "build/gpuhours"
    rows, readings = [], []
    print("| run | unit | measured | P10 | P50 | P90 | inside | factor | memory | forecast | inside |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for run in runs:
        answer = plan(program, run)
        if "error" in answer:
            print(f"| {run['id']} | {answer['error']} |")
            continue
        cells, memory = [run["id"]], answer["memory"]
        found = speeds(run, answer)
        if found:
            unit, measured, (low, mid, high) = found
            inside = low <= measured <= high
            levels = {x["factor"]: x for x in answer["evidence"]["measured"] + answer["evidence"]["never_measured"]}
            rows.append(dict(run=run["id"], source=run["source"].split("@")[0].split(",")[0], card=levels["gpu"]["level"], stack=levels["stack"]["level"],
                             card_sources=levels["gpu"]["sources"], stack_sources=levels["stack"]["sources"], told_thinly="yes" if run["thin"] else "",
                             measured=f"{measured / mid:.5g}", p10=f"{low / mid:.5g}", p90=f"{high / mid:.5g}", inside=inside))
            cells += [unit] + [f"{x:.4g}" for x in (measured, low, mid, high)] + ["yes" if inside else "no", f"{measured / mid:.2f}"]
        elif run.get("outcome"):
            cells += [f"{run['outcome']}: fits with {100 * (memory.get('fit_probability') or 0):.0f} %"] + [""] * 6
        else:
            cells += [""] * 7
        if run.get("memory_gib"):
            kind = {"allocated": "allocated_bytes", "reserved": "reserved_bytes"}.get(run.get("memory_kind"), "total_bytes")
            wide = {p: memory["total_range_bytes"][p] / memory["total_bytes"] for p in ("p10", "p90")}
            share = run["memory_gib"] * GIB / memory[kind]
            readings.append((share, wide["p10"] <= share <= wide["p90"]))
            cells += [f"{run['memory_gib']:.1f}", f"{memory[kind] / GIB:.1f}", "yes" if readings[-1][1] else "no"]
        else:
            cells += ["", "", ""]
        print("| " + " | ".join(cells) + " |")
    groups = {"all": rows, "told well": [r for r in rows if not r["told_thinly"]], "told too thinly": [r for r in rows if r["told_thinly"]],
              "card and trainer of 3 sources or more": [r for r in rows if min(r["card_sources"], r["stack_sources"]) >= 3],
              "of fewer": [r for r in rows if min(r["card_sources"], r["stack_sources"]) < 3]}
    print()
    for name, group in groups.items():
        if not group:
            continue
        errors = sorted(abs(math.log(float(r["measured"]))) for r in group)
        sources = {}
        for r in group:
            sources.setdefault(r["source"], []).append(r["inside"])
        share = sum(sum(v) / len(v) for v in sources.values()) / len(sources)
        print(f"{name}: {sum(r['inside'] for r in group)} of {len(group)} inside, off by {math.exp(errors[len(errors) // 2]):.2f} at the median, "
              f"P90 {math.exp(errors[min(len(errors) - 1, int(0.9 * len(errors)))]):.2f}; {len(sources)} sources, each counted once {100 * share:.0f} %")
    if readings:
        off = sorted(max(share, 1 / share) for share, _ in readings)
        print(f"memory: {sum(inside for _, inside in readings)} of {len(readings)} inside, off by {off[len(off) // 2]:.2f} at the median")
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w", newline="") as out:
            table = csv.DictWriter(out, [k for k in rows[0] if k != "inside"], lineterminator="\n", extrasaction="ignore")
            table.writeheader()
            table.writerows(rows)


main()
