# SPDX-License-Identifier: Apache-2.0
"""Times transformers (with PEFT for LoRA) on random weights of real shapes: what the engine is held against.

    python3 bench/gpu/peers.py [OUT.jsonl] [SECONDS]

Six steps of each, the median after two that warm up: bf16 weights, adapters in fp32 as PEFT makes them, sdpa
attention, fused AdamW, no recomputation. One JSON line per configuration; at most 150 s, or what is given.
"""
import gc
import json
import statistics
import sys
import time

import torch

from shapes import SHAPES, build

# shape, method, rows, width, steps
CASES = [
    ("llama-3.1-8b", "lora", 2, 4096, 6),
    ("llama-3.1-8b", "full", 1, 4096, 6),
    ("qwen2.5-0.5b", "lora", 4, 512, 14),
]
PUBLISHED = {("llama-3.1-8b", "lora"): 8939, ("llama-3.1-8b", "full"): 9394, ("qwen2.5-0.5b", "lora"): 12477}
WARM = 2


def measure(shape, method, rows, width, steps, end):
    torch.cuda.reset_peak_memory_stats()
    model = build(shape, lora=method == "lora").train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    times = []
    for _ in range(steps):
        ids = torch.randint(0, SHAPES[shape]["vocab_size"], (rows, width), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        if time.time() > end and len(times) > WARM:
            break
    step = statistics.median(times[WARM:])
    return dict(peer="transformers+peft" if method == "lora" else "transformers", shape=shape, method=method, rows=rows,
                width=width, steps=len(times), step_seconds=round(step, 5), tokens_per_second=round(rows * width / step, 1),
                allocated_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2), loss=round(float(loss), 4),
                dtype=str(trained[0].dtype), torch=torch.__version__, gpu=torch.cuda.get_device_name())


def main():
    out = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    end = time.time() + (float(sys.argv[2]) if len(sys.argv) > 2 else 150)
    rows = []
    for case in CASES:
        if time.time() > end:
            row = dict(shape=case[0], method=case[1], error="no time left")
        else:
            try:
                row = measure(*case, end)
            except Exception as error:  # out of memory is a result too
                row = dict(shape=case[0], method=case[1], error=repr(error)[:300])
        gc.collect()
        torch.cuda.empty_cache()
        rows.append(row)
        print(json.dumps(row), flush=True)
        if out:
            out.write(json.dumps(row) + "\n")
            out.flush()
    print(f"{'peer':<28} {'tokens/s':>10} {'published':>10} {'ratio':>6}")
    for row in rows:
        known, got = PUBLISHED[row["shape"], row["method"]], row.get("tokens_per_second", 0)
        print(f"{row['shape'] + ' ' + row['method']:<28} {got:>10,.0f} {known:>10,} {got / known:>6.2f} {row.get('error', '')}")


main()
