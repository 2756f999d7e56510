# SPDX-License-Identifier: Apache-2.0
"""What the first sight of a padded width costs transformers with PEFT, beside its second and third sight.

    python3 bench/gpu/widths.py [OUT.jsonl]

For each configuration: 48 widths in random order, each a micro-batch forward and backward under bf16 autocast as the Trainer
runs it; the same widths in the same order twice more. A line per micro-batch: seconds, how many blocks the allocator took
from the driver, how often it had to give cached blocks back and try again, and what it had reserved.
"""
import json
import random
import sys
import time

import torch

from shapes import build

OUT = open(sys.argv[1] if len(sys.argv) > 1 else "/dev/stdout", "w", buffering=1)


def put(**line):
    OUT.write(json.dumps(line) + "\n")


def micro_batch(model, rows, width, mask):
    ids = torch.randint(0, 1000, (rows, width), device="cuda")
    more = {}
    if mask:
        more["attention_mask"] = torch.ones_like(ids)
        more["attention_mask"][0, width - 5:] = 0
    torch.cuda.synchronize()
    begin = time.perf_counter()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids, **more).loss
    torch.cuda.synchronize()
    middle = time.perf_counter()
    loss.backward()
    torch.cuda.synchronize()
    return middle - begin, time.perf_counter() - middle


def sights(shape, rows, mask, checkpointing, low=90, high=420):
    model = build(shape)
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    for _ in range(4):
        micro_batch(model, rows, 64, mask)
    widths = random.Random(1).sample(range(low, high), 48)
    for sight in (1, 2, 3):
        for i, width in enumerate(widths):
            before = torch.cuda.memory_stats()
            forward, backward = micro_batch(model, rows, width, mask)
            after = torch.cuda.memory_stats()
            put(kind="sight", shape=shape, rows=rows, mask=mask, checkpointing=checkpointing, sight=sight,
                i=i, width=width, forward=round(forward, 5), backward=round(backward, 5),
                blocks=after.get("num_device_alloc", 0) - before.get("num_device_alloc", 0),
                retries=after["num_alloc_retries"] - before["num_alloc_retries"],
                reserved_gib=round(after["reserved_bytes.all.current"] / 2**30, 2))
    del model
    torch.cuda.empty_cache()


for shape, rows, mask, checkpointing in (("llama-3.2-1b", 8, True, False), ("llama-3.2-1b", 8, False, False),
                                         ("llama-3.2-1b", 2, True, False), ("llama-3.2-1b", 8, True, True),
                                         ("llama-3.1-8b", 8, True, False), ("llama-3.1-8b", 8, True, True)):
    begin = time.time()
    sights(shape, rows, mask, checkpointing)
    print(shape, rows, mask, checkpointing, round(time.time() - begin, 1), "s", flush=True)
