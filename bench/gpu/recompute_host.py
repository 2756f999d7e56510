# SPDX-License-Identifier: Apache-2.0
"""Times what gradient checkpointing costs the host: steps so small that the GPU waits, with and without recomputation.

    python3 bench/gpu/recompute_host.py OUT.jsonl

One JSON line per shape: seconds of the forward pass, of a whole step with nothing recomputed, and of steps with layers
recomputed (as the Trainer does it; without saving the state of random numbers; reentrant). A step's extra seconds over those
of the forward pass say how many forward passes of host time a recomputation takes.
"""
import gc
import json
import statistics
import sys
import time

import torch

from shapes import SHAPES, build

KINDS = {"none": None, "trainer": dict(use_reentrant=False), "no_random_state": dict(use_reentrant=False, preserve_rng_state=False),
         "reentrant": dict(use_reentrant=True)}


def steps(model, shape, rows, width, times):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    forward, whole = [], []
    for _ in range(times):
        ids = torch.randint(0, SHAPES[shape]["vocab_size"], (rows, width), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
        torch.cuda.synchronize()
        forward.append(time.perf_counter() - start)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        whole.append(time.perf_counter() - start)
    half = times // 2
    return statistics.median(forward[half:]), statistics.median(whole[half:])


def main():
    with open(sys.argv[1], "a") as out:
        for shape in ("llama-3.2-1b", "llama-3.2-3b"):
            line = dict(bench="recompute_host", shape=shape, rows=1, width=64)
            for kind, settings in KINDS.items():
                model = build(shape).train()
                if settings is not None:
                    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)
                    model.enable_input_require_grads()
                forward, whole = steps(model, shape, 1, 64, 24)
                line[kind] = dict(forward_s=round(forward, 5), step_s=round(whole, 5))
                del model
                gc.collect()
                torch.cuda.empty_cache()
            for stream in (sys.stdout, out):
                stream.write(json.dumps(line) + "\n")
                stream.flush()


main()
