# SPDX-License-Identifier: Apache-2.0
"""Times training steps of transformers with PEFT on random weights of real shapes, as a user of both gets them.

    python3 bench/gpu/peft_steps.py OUT.jsonl [SECONDS]

One JSON line per configuration: median step after warm-up, tokens/s, torch's peak allocated and reserved memory.
"autocast" is what the Trainer's bf16=True does around a model whose adapters PEFT keeps in fp32. The lines are the
source of the GPH rows of data/runs.csv.
"""
import gc
import json
import statistics
import sys
import time

import torch

from shapes import SHAPES, build

# shape, rows, width, recomputation, autocast
CASES = [
    ("llama-3.2-1b", 16, 200, False, True), ("llama-3.2-1b", 16, 310, False, True),
    ("llama-3.2-1b", 16, 495, False, True), ("llama-3.2-1b", 16, 495, False, False),
    ("llama-3.2-1b", 4, 4096, False, False), ("llama-3.2-1b", 4, 4096, True, False),
    ("qwen2.5-0.5b", 4, 512, False, False), ("qwen2.5-0.5b", 8, 2048, False, False),
    ("llama-3.1-8b", 2, 4096, False, False), ("llama-3.1-8b", 2, 4096, True, False),
    ("llama-3.1-8b", 4, 2048, True, True), ("llama-3.1-8b", 8, 512, False, False),
    ("llama-3.1-8b", 1, 512, False, False), ("llama-3.1-8b", 1, 8192, True, False),
]


def prepare(shape, recompute):
    model = build(shape)
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    return model.train()


def measure(shape, rows, width, recompute, autocast, steps=14, warm=4):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = prepare(shape, recompute)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    times = []
    for _ in range(steps):
        ids = torch.randint(0, SHAPES[shape]["vocab_size"], (rows, width), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    step = statistics.median(times[warm:])
    gib = 2 ** 30
    return dict(shape=shape, rows=rows, width=width, recompute=recompute, autocast=autocast, step_s=round(step, 5),
                tokens_per_s=round(rows * width / step, 1),
                allocated_gib=round(torch.cuda.max_memory_allocated() / gib, 2),
                reserved_gib=round(torch.cuda.max_memory_reserved() / gib, 2),
                adapter_dtype=str(trained[0].dtype), torch=torch.__version__, gpu=torch.cuda.get_device_name())


def main():
    out = open(sys.argv[1], "a")
    budget = float(sys.argv[2]) if len(sys.argv) > 2 else 240
    begun = time.time()
    for case in CASES:
        if time.time() - begun > budget:
            break
        try:
            row = measure(*case)
        except Exception as error:  # out of memory is a result too
            row = dict(case=case, error=repr(error)[:200])
        gc.collect()
        torch.cuda.empty_cache()
        print(json.dumps(row), flush=True)
        out.write(json.dumps(row) + "\n")
        out.flush()


main()
