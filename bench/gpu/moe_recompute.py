# SPDX-License-Identifier: Apache-2.0
"""Times what recomputation adds to a layer of Qwen3-30B-A3B in transformers, by how it is run.

    python3 bench/gpu/moe_recompute.py OUT.jsonl [LAYERS]

One model of random weights (bench/gpu/moe.py), 4,096 tokens in one row, LoRA of rank 16 on attention. Cases: with autocast and without
it; nothing recomputed, recomputed with saved-tensor hooks, recomputed reentrant; routing as random weights make it, and spread over
all experts. One JSON line per case: the median step, and how long the host took to start its work. About 30 s.
"""
import contextlib
import itertools
import json
import statistics
import sys
import time

import torch

import moe

RECOMPUTATION = {"none": None, "hooks": False, "reentrant": True}


def recompute(model, how):
    if RECOMPUTATION[how] is None:
        model.gradient_checkpointing_disable()
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": RECOMPUTATION[how]})


def step(model, optimizer, ids, autocast):
    """Seconds until the host has started everything, and until the device has done it."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.autocast("cuda", torch.bfloat16) if autocast else contextlib.nullcontext():
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    started = time.perf_counter() - start
    torch.cuda.synchronize()
    return started, time.perf_counter() - start


def main():
    out, layers = open(sys.argv[1], "a"), int(sys.argv[2]) if len(sys.argv) > 2 else 24
    moe.SHAPES["qwen3-30b-a3b"][3]["num_hidden_layers"] = layers
    spread, moe.spread = moe.spread, lambda model: model
    model = moe.build("qwen3-30b-a3b", "", True)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    ids = torch.randint(0, 151936, (1, moe.TOKENS), device="cuda")
    for routing in ("random", "spread"):
        if routing == "spread":
            spread(model)
        hit = moe.routing(model, ids)
        for autocast, how in itertools.product((True, False), RECOMPUTATION):
            recompute(model, how)
            times = [step(model, optimizer, ids, autocast) for _ in range(7)][2:]
            row = dict(routing=routing, autocast=autocast, recompute=how, layers=layers, torch=torch.__version__,
                       host_s=round(statistics.median(t[0] for t in times), 5), step_s=round(statistics.median(t[1] for t in times), 5), **hit)
            for stream in (sys.stdout, out):
                stream.write(json.dumps(row) + "\n")
                stream.flush()


if __name__ == "__main__":
    main()
