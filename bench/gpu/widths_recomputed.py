# SPDX-License-Identifier: Apache-2.0
"""Whether the first sight of a padded width costs more where layers are recomputed, and in which pass.

    python3 bench/gpu/widths_recomputed.py OUT.jsonl

Half of a 3B shape's layers with LoRA, as the Trainer runs them. Widths that nothing has seen, every other one with
recomputation; then all of them twice more. A line per micro-batch: seconds of both passes, and how many blocks the allocator
took from the driver. The last lines have the means of first minus later sights by kind and pass; after LIMIT_S (90) seconds of
sights they are of the widths that were seen twice.
"""
import json
import os
import random
import statistics
import sys
import time

import torch

from shapes import SHAPES, build

SHAPES["half-3b"] = dict(SHAPES["llama-3.2-3b"], num_hidden_layers=14)
COUNT = 20  # widths of each kind


def timed(model, rows, width):
    """Events of the host: the GPU has nothing else to do, and each pass is waited for."""
    ids = torch.randint(0, 1000, (rows, width), device="cuda")
    mask = torch.ones_like(ids)
    mask[0, width - 5:] = 0
    torch.cuda.synchronize()
    begin = time.perf_counter()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
    torch.cuda.synchronize()
    middle = time.perf_counter()
    loss.backward()
    torch.cuda.synchronize()
    return middle - begin, time.perf_counter() - middle


def recompute(model, on):
    if on:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    else:
        model.gradient_checkpointing_disable()


def main():
    model = build("half-3b").train()
    model.enable_input_require_grads()
    for on in (False, True):
        recompute(model, on)
        for _ in range(3):
            timed(model, 8, 64)
    widths = random.Random(3).sample(range(130, 420), 2 * COUNT)
    seconds, end = {}, time.monotonic() + float(os.environ.get("LIMIT_S", 90))
    print(f"{len(widths)} widths, three times each", flush=True)
    with open(sys.argv[1], "w", buffering=1) as out:
        for sight in (1, 2, 3):
            for i, width in enumerate(widths):
                on = i % 2 == 1
                if time.monotonic() > end:
                    break
                recompute(model, on)
                before = torch.cuda.memory_stats().get("num_device_alloc", 0)
                passes = timed(model, 8, width)
                blocks = torch.cuda.memory_stats().get("num_device_alloc", 0) - before
                seconds.setdefault((on, width), []).append(passes)
                out.write(json.dumps(dict(sight=sight, width=width, recomputed=on, forward=round(passes[0], 4),
                                          backward=round(passes[1], 4), blocks=blocks)) + "\n")
        for on in (False, True):
            line = dict(recomputed=on)
            for at, name in enumerate(("forward", "backward")):
                extra = [s[0][at] - min(later[at] for later in s[1:])
                         for (kind, _), s in seconds.items() if kind == on and len(s) > 1]
                if len(extra) < 2:
                    continue
                line[name + "_first_s"] = round(statistics.mean(extra), 4)
                line[name + "_error_s"] = round(statistics.stdev(extra) / len(extra) ** 0.5, 4)
            print(json.dumps(line))
            out.write(json.dumps(line) + "\n")


main()
