# SPDX-License-Identifier: Apache-2.0
"""Times DPO steps of transformers with PEFT, and transformers' generate, on random weights of real shapes.

    python3 bench/gpu/dpo_steps.py OUT.jsonl [dpo|generate]

A DPO step as TRL runs it: chosen and rejected answers in one batch, log-probabilities row by row from 16-bit logits, and the
reference by the same model with its adapters switched off, while the policy's activations are kept. Generation is greedy, of
as many tokens as are asked for, with the dynamic cache. One JSON line each: seconds, tokens/s, torch's peak memory. Nothing waits
for the GPU within a step that is timed; the reference's own seconds are taken in steps of their own, which do.
"""
import gc
import json
import statistics
import sys
import time

import torch

from shapes import SHAPES, build

# shape, pairs, width of a row, recomputation
STEPS = [("llama-3.2-3b", 4, 1024, False), ("llama-3.2-1b", 8, 1024, True), ("llama-3.1-8b", 4, 2048, True)]
# shape, rows, new tokens after a prompt of 128
SAMPLES = [(shape, rows, 64) for shape in ("llama-3.2-1b", "llama-3.1-8b") for rows in (1, 16, 128)]
GIB = 2 ** 30


def log_probabilities(model, ids):
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    rows = [torch.log_softmax(row, -1).gather(-1, label[1:, None]).squeeze(-1) for row, label in zip(logits, ids)]
    return torch.stack(rows).float().sum(-1)


def step_seconds(shape, pairs, width, recompute, steps=12, warm=4):
    model = build(shape)
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    times, references = [], []
    for turn in range(steps + 3):
        apart = turn >= steps
        ids = torch.randint(0, SHAPES[shape]["vocab_size"], (2 * pairs, width), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            policy = log_probabilities(model, ids)
            if apart:
                torch.cuda.synchronize()
            middle = time.perf_counter()
            with torch.no_grad(), model.disable_adapter():
                reference = log_probabilities(model, ids)
            if apart:
                torch.cuda.synchronize()
                references.append(time.perf_counter() - middle)
            margin = (policy - reference)[:pairs] - (policy - reference)[pairs:]
            loss = -torch.nn.functional.logsigmoid(0.1 * margin).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if not apart:
            times.append(time.perf_counter() - start)
    return statistics.median(times[warm:]), statistics.median(references)


def generate_seconds(shape, rows, tokens, prompt=128):
    model = build(shape, lora=False).eval()
    model.config.use_cache = True
    ids = torch.randint(0, 1000, (rows, prompt), device="cuda")
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.no_grad():
            model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                           do_sample=False, use_cache=True, pad_token_id=0)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def measured(function, names, case):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    row = dict(bench=function.__name__, **dict(zip(names, case)))
    try:
        seconds = function(*case)
    except Exception as error:  # out of memory is a result too
        return dict(row, error=repr(error)[:300])
    if isinstance(seconds, tuple):
        seconds, row["reference_s"] = seconds
        row["tokens_per_s"] = round(2 * case[1] * case[2] / seconds, 1)
    else:
        row["tokens_per_s"] = round(case[1] * case[2] / seconds, 1)
    return dict(row, seconds=round(seconds, 5), allocated_gib=round(torch.cuda.max_memory_allocated() / GIB, 2),
                reserved_gib=round(torch.cuda.max_memory_reserved() / GIB, 2), torch=torch.__version__,
                gpu=torch.cuda.get_device_name())


def main():
    wanted = sys.argv[2:] or ["dpo", "generate"]
    benches = [("dpo", step_seconds, ("shape", "pairs", "width", "recompute"), STEPS),
               ("generate", generate_seconds, ("shape", "rows", "new_tokens"), SAMPLES)]
    with open(sys.argv[1], "a") as out:
        for name, function, names, cases in benches:
            for case in cases if name in wanted else []:
                line = json.dumps(measured(function, names, case))
                print(line, flush=True)
                out.write(line + "\n")


main()
