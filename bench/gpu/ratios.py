# SPDX-License-Identifier: Apache-2.0
"""The engine over transformers (with PEFT for LoRA) by length of the rows and by shape of the model, both in one run.

    python3 bench/gpu/ratios.py lengths|shapes OUT.jsonl [SECONDS [WORD]]     WORD: cases whose name has it alone

Random weights, bf16, adapters of rank 16 on all linears, as many tokens a step on both sides. The peer takes the first of its
settings that fits the card: rows at a time, then with checkpointing of its layers. The engine takes what it plans by itself. A
case is one JSON line; at the end a table. No case is begun after SECONDS (500). Needs the build of cross.sh or check.sh.
"""
import gc
import json
import os
import statistics
import subprocess
import sys
import time

# model, method, tokens of a row, rows a step, engine's rows at a time, steps of both, peer's settings (rows, checkpointing), bar
CASES = {
    "lengths": [
        ("llama-3.1-8b", "lora", 8192, 2, 2, 5, [(2, False), (1, False)], 1.8),
        ("llama-3.1-8b", "lora", 16384, 1, 1, 5, [(1, False), (1, True)], 1.6),
        ("llama-3.1-8b", "lora", 32768, 1, 1, 4, [(1, False), (1, True)], 1.5),
        ("llama-3.1-8b", "qlora", 131072, 1, 1, 1, [], None),  # PEFT's kernels of bitsandbytes are not on the machine
    ],
    "shapes": [
        ("llama-3.2-1b", "lora", 4096, 4, 4, 8, [(4, False), (2, False)], 1.5),
        ("llama-3.2-1b", "full", 4096, 4, 4, 8, [(4, False), (2, False)], 1.25),
        ("llama-3.2-3b", "lora", 4096, 4, 4, 6, [(4, False), (2, False)], 1.5),
        ("llama-3.2-3b", "full", 4096, 4, 4, 6, [(4, False), (2, False)], 1.25),
        ("mistral-7b-v0.3", "lora", 4096, 4, 4, 5, [(4, False), (2, False)], 1.5),
        ("mistral-7b-v0.3", "full", 4096, 4, 4, 5, [(2, False), (1, False)], 1.25),
        ("qwen2.5-7b", "lora", 4096, 4, 4, 5, [(2, False), (1, False)], 1.5),
        ("qwen2.5-7b", "full", 4096, 4, 4, 5, [(2, False), (1, False)], 1.25),
        ("qwen3-8b", "lora", 4096, 4, 4, 5, [(2, False), (1, False)], 1.5),
        ("llama-2-13b", "lora", 4096, 4, 2, 4, [(2, False), (1, False)], 1.5),
        ("qwen2.5-32b", "lora", 4096, 2, 2, 4, [(1, False), (2, True)], 1.5),
        ("qwen3-8b", "full", 4096, 4, 2, 4, [(1, False), (2, True)], 1.25),
        ("llama-2-13b", "full", 4096, 2, 1, 4, [(1, False), (1, True)], 1.25),
    ],
}
WARM = 2


def engine(model, method, width, rows, at_once, steps):
    command = ["build/fast/bench/engine", model, method, "bf16", width, at_once, steps, rows // at_once]
    # one step of the longest rows takes most of a minute: what tuning would gain is less than what it takes
    env = {**os.environ, "TUNE": "0"} if steps == 1 else None
    done = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True, timeout=150)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return dict(error=(done.stderr or done.stdout).strip()[-300:])


def peer_once(model, method, width, rows, at_once, checkpointing, steps):
    import torch
    from shapes import SHAPES, build

    torch.cuda.reset_peak_memory_stats()
    net = build(model, lora=method == "lora").train()
    if checkpointing:
        net.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    times = []
    for _ in range(max(steps, WARM + 2)):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(rows // at_once):
            ids = torch.randint(0, SHAPES[model]["vocab_size"], (at_once, width), device="cuda")
            net(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    step = statistics.median(times[WARM:])
    return dict(rows_at_once=at_once, checkpointing=checkpointing, step_seconds=round(step, 5),
                tokens_per_second=round(rows * width / step, 1),
                allocated_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2))


def peer(model, method, width, rows, steps, settings):
    import torch

    failed = []
    for at_once, checkpointing in settings:
        try:
            return dict(peer_once(model, method, width, rows, at_once, checkpointing, steps), did_not_fit=failed)
        except torch.cuda.OutOfMemoryError:
            failed.append(dict(rows_at_once=at_once, checkpointing=checkpointing))
        finally:
            gc.collect()
            torch.cuda.empty_cache()
    return dict(error="nothing fits", did_not_fit=failed)


def main():
    group, out = sys.argv[1], open(sys.argv[2], "a")
    end = time.time() + (float(sys.argv[3]) if len(sys.argv) > 3 else 500)
    rows = []
    for model, method, width, count, at_once, steps, settings, bar in CASES[group]:
        name = f"{model} {method} {width}"
        if len(sys.argv) > 4 and sys.argv[4] not in name:
            continue
        row = dict(case=name, bar=bar)
        try:
            if time.time() > end:
                raise TimeoutError("no time left")
            row["engine"] = engine(model, method, width, count, at_once, steps)
            if settings:
                row["peer"] = peer(model, method, width, count, steps, settings)
                row["ratio"] = round(row["engine"]["tokens_per_second"] / row["peer"]["tokens_per_second"], 3)
        except Exception as error:  # the other cases go on
            row["error"] = repr(error)[:300]
        rows.append(row)
        out.write(json.dumps(row) + "\n")
        out.flush()
        print(json.dumps(row), flush=True)
    print(f"{'case':<32} {'engine':>8} {'peer':>8} {'ratio':>6} {'bar':>5}")
    for row in rows:
        ours, theirs = (row.get(side, {}).get("tokens_per_second", 0) for side in ("engine", "peer"))
        met = "" if row["bar"] is None else "NO RESULT" if "ratio" not in row else "met" if row["ratio"] >= row["bar"] else "NO"
        print(f"{row['case']:<32} {ours:>8,.0f} {theirs:>8,.0f} {row.get('ratio', 0):>6.2f} {row['bar'] or '':>5} {met}")
    return any(row["bar"] and row.get("ratio", 0) < row["bar"] for row in rows)


sys.exit(main())
