# SPDX-License-Identifier: Apache-2.0
"""The bars of the CUDA engine, from what bench/gpu/all.sh and the pilots left in a folder: measured, bar, met.

    python3 bench/gpu/summary.py FOLDER

What was not run, or failed, reads as such; costs without a bar are recorded. Exits with 1 if a bar that was run is not met.
"""
import json
import os
import re
import sys

GIB = 2**30
folder = sys.argv[1]
rows = []
part = ""  # that the next bars are of


def lines(name):
    path, found = os.path.join(folder, name), []
    for line in open(path) if os.path.exists(path) else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            pass
    return found


def text(name):
    path = os.path.join(folder, name)
    return open(path, errors="replace").read() if os.path.exists(path) else ""


def bar(what, measured, limit, show="{:,.0f}", most=False):
    """limit None: recorded alone."""
    if measured is None:
        begun = any(f"=== {name}\n" in text("all.log") for name in part.split())
        rows.append((what, "-", "" if limit is None else show.format(limit), "NO RESULT" if begun else "not run"))
    elif limit is None:
        rows.append((what, show.format(measured), "", "recorded"))
    else:
        good = measured <= limit if most else measured >= limit
        rows.append((what, show.format(measured), ("<= " if most else ">= ") + show.format(limit), "yes" if good else "NO"))


engine, peers, costs = lines("engine.jsonl"), lines("peers.jsonl"), lines("costs.jsonl")


def run(model, method, precision, context, **more):
    for row in engine:
        if (row.get("model"), row.get("method"), row.get("precision"), row.get("context")) == (
                model, method, precision, context) and all(row.get(k) == v for k, v in more.items()):
            return row
    return {}


def peer(shape, method):
    return next((r.get("tokens_per_second") for r in peers if r.get("shape") == shape and r.get("method") == method), None)


def over(a, b):
    return a / b if a and b else None


def speed(row):
    return row.get("tokens_per_second")


part = "engine"
lora = run("llama-3.1-8b", "lora", "bf16", 4096)
full = run("llama-3.1-8b", "full", "bf16", 4096)
tiny = run("qwen2.5-0.5b", "lora", "bf16", 512)
big = run("llama-2-70b", "qlora", "bf16", 2048)
tight = run("llama-3.1-8b", "qlora", "bf16", 1024)
bar("8B LoRA bf16 4096, tok/s (goal 18,000)", speed(lora), 17600)
bar("  over transformers+PEFT, same run", over(speed(lora), peer("llama-3.1-8b", "lora")), 1.8, "{:.2f}")
bar("8B LoRA fp8 4096, tok/s (goal 25,000)", speed(run("llama-3.1-8b", "lora", "fp8", 4096)), 24500)
bar("8B full bf16 4096, tok/s (goal 13,500)", speed(full), 13200)
bar("  over transformers, same run", over(speed(full), peer("llama-3.1-8b", "full")), None, "{:.2f}")
bar("8B QLoRA 4096, tok/s (goal 17,500)", speed(run("llama-3.1-8b", "qlora", "bf16", 4096)), 17000)
bar("70B QLoRA 2048, GiB used", over(big.get("used_bytes"), GIB), 48, "{:.2f}", most=True)
bar("  tok/s", speed(big), None)
bar("8B QLoRA 1024, GiB used", over(tight.get("used_bytes"), GIB), 8, "{:.2f}", most=True)
bar("  tok/s", speed(tight), None)
bar("0.5B LoRA 512 over transformers+PEFT", over(speed(tiny), peer("qwen2.5-0.5b", "lora")), 3, "{:.2f}")
bar("  tok/s", speed(tiny), None)
memory = [abs(r["used_bytes"] / r["planned_bytes"] - 1) for r in engine + costs
          if r.get("planned_bytes") and r.get("used_bytes")]
bar("device memory off the plan, worst share", max(memory, default=None), 0.02, "{:.4f}", most=True)
block = run("llama-3.1-8b", "lora", "bf16", 4096, recompute="block")
bar("full recomputation, times as slow", over(block.get("step_seconds"), lora.get("step_seconds"))
    if block.get("micro_batch") == lora.get("micro_batch") else None, None, "{:.3f}")
bar("full over LoRA, memory at 8B", over(full.get("planned_bytes"), lora.get("planned_bytes")), None, "{:.2f}")
wide = run("llama-3.2-1b", "lora", "fp32", 4096, micro_batch=1)
narrow = run("llama-3.2-1b", "lora", "bf16", 4096, micro_batch=1)
bar("bf16 over fp32, tok/s at 1B", over(speed(narrow), speed(wide)), None, "{:.2f}")
for part in ("lengths", "shapes"):
    cases = lines(part + ".jsonl")
    if not cases:
        bar(f"{part}, over transformers", None, 0, "{:.0f}")
    for row in cases:
        if row["bar"] is not None:
            bar(f"{row['case']} over transformers", row.get("ratio"), row["bar"], "{:.2f}")
part = "costs"
for name in ("gsm8k", "c4"):
    by = {r["lengths"].split(":")[0]: r for r in costs if name in r.get("lengths", "")}
    bar(f"packing over padding, {name} lengths", over(speed(by.get("packed", {})), speed(by.get("padded", {}))), None,
        "{:.2f}")
    bar("  share of real tokens when padded", by.get("padded", {}).get("real_share"), None, "{:.3f}")

part = "parity"
found = re.findall(r"^(\d+) passed, (\d+) failed", text("parity.log"), re.M)
bar("operations against the CPU's, failed", int(found[0][1]) if found else None, 0, "{:.0f}", most=True)
part = "sanitizer"
errors = re.findall(r"ERROR SUMMARY: (\d+) error", text("all.log"))
bar("compute-sanitizer on small shapes, errors", int(errors[-1]) if errors else None, 0, "{:.0f}", most=True)
part = "parity_hf"
steps, curves = lines("parity_hf.jsonl"), lines("curves.jsonl")
if not steps:
    bar("a step of the 1B shape against transformers", None, 0, "{:.0f}")
for row in steps:
    if row.get("judged"):
        bar("step, " + row["what"] + ": tensors off", row["failed"], 0, "{:.0f}", most=True)
part = "curves"
if not curves:
    bar("loss curves of 200 steps", None, 0, "{:.0f}")
for row in curves:
    if "gap" in row:
        bad = "error" in row or row.get("steps") != 200
        bar(f"curve {row['method']} {row['curve']} off {row['against']}", None if bad else row["gap"], row["band"], "{:.4f}",
            most=True)

part = "pilot"
for name, what, limit in (("pilot_engine.jsonl", "the engine", 0.03), ("pilot_wrapped_run.jsonl", "transformers with PEFT", 0.05)):
    row = (lines(name) or [{}])[-1]
    off = row.get("actual_over_forecast")
    bar(f"pilot of {what}: run off its forecast, share", None if off is None else abs(off - 1), limit, "{:.4f}", most=True)
    bar("  inside P10 to P90", row.get("held"), 1, "{:.0f}")

print(f"{'bar':<62} {'measured':>12} {'bar':>12}  met")
for what, measured, limit, met in rows:
    print(f"{what:<62} {measured:>12} {limit:>12}  {met}")
sys.exit(any(met in ("NO", "NO RESULT") for *_, met in rows))
