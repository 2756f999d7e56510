# SPDX-License-Identifier: Apache-2.0
"""Where a layer with experts spends its time: kernels by name, wall clock beside device time, and how tokens were routed.

    python3 bench/gpu/moe_parts.py OUT.jsonl [SECONDS]

A few layers of each shape of moe.py, as there. A line per case: seconds of forward and backward, tensors that a layer saves, experts that it
runs and the load of the busiest over the mean, and the device time of each kernel of one step, in milliseconds per layer.
"""
import collections
import gc
import json
import statistics
import sys
import time

import torch

import moe

LAYERS = {"mixtral-16-layers": 4}
CASES = [("qwen3-30b-a3b", "", False), ("mixtral-16-layers", "", False), ("granite-3-3b-a800m", "", False), ("deepseek-v2-lite-16b", "", False),
         ("qwen3-30b-a3b", "", True), ("qwen3-30b-a3b", "eager", False), ("olmoe-1b-7b", "eager", False), ("granite-3-3b-a800m", "eager", False),
         ("mixtral-16-layers", "eager", False), ("qwen3-30b-a3b", "eager", True)]


def step(model, ids):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    torch.cuda.synchronize()
    middle = time.perf_counter()
    loss.backward()
    torch.cuda.synchronize()
    return middle - begun, time.perf_counter() - middle


def saved(model, ids):
    count = [0]

    def pack(tensor):
        count[0] += 1
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), torch.autocast("cuda", torch.bfloat16):
        model(input_ids=ids)
    return count[0]


def kernels(model, ids):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step(model, ids)
    times = collections.Counter()
    for event in profile.events():
        times[event.name[:90]] += event.device_time_total / 1000 if hasattr(event, "device_time_total") else event.cuda_time_total / 1000
    return times


def measure(shape, experts, recompute):
    layers = LAYERS.get(shape, 8)
    moe.SHAPES[shape][3]["num_hidden_layers"] = layers
    model = moe.build(shape, experts, recompute)
    ids = torch.randint(0, moe.SHAPES[shape][3]["vocab_size"], (1, moe.TOKENS), device="cuda")
    routed = moe.routing(model, ids)
    times = [step(model, ids) for _ in range(7)][2:]
    times = [statistics.median(t[i] for t in times) for i in (0, 1)]
    held = saved(model, ids) if not recompute else None
    by_kernel = kernels(model, ids)
    total = sum(by_kernel.values())
    return dict(shape=shape, experts=experts or "as it comes", recompute=recompute, layers=layers, **routed,
                forward_s=round(times[0], 5), backward_s=round(times[1], 5), saved_per_layer=held and round(held / layers, 1),
                device_ms=round(total, 2), kernels={name: round(ms / layers, 4) for name, ms in by_kernel.most_common(40)})


def main():
    budget, begun = float(sys.argv[2]) if len(sys.argv) > 2 else 70, time.time()
    with open(sys.argv[1], "a") as out:
        for case in CASES:
            if time.time() - begun > budget:
                break
            try:
                row = measure(*case)
            except Exception as error:  # one case does not take the others with it
                row = dict(case=case, error=repr(error)[:300])
            gc.collect()
            torch.cuda.empty_cache()
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(json.dumps(row)[:400], flush=True)


main()
