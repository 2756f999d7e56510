# SPDX-License-Identifier: Apache-2.0
"""How long the GPU waits for transformers' Trainer between micro-batches.

    python3 bench/gpu/trainer_gap.py OUT.jsonl [SECONDS]

By default the Trainer looks whether each micro-batch's loss is a number (logging_nan_inf_filter), which waits for all that was
launched. What it does in Python until the next forward pass (model.train(), counting operations, collating, callbacks) the GPU
then waits for, however long its kernels are. One JSON line per configuration, seconds of a micro-batch (medians): in the Trainer,
in the Trainer without that look, in a bare loop that waits once per micro-batch, in one that never waits, and the sum of its
kernels (profiler). Rows are all of one width, so that no plan is made anew.
"""
import gc
import json
import statistics
import sys
import tempfile
import time

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from shapes import SHAPES, build

# shape, rows, width, mask
CASES = [("llama-3.2-1b", 12, 1024, True), ("llama-3.2-1b", 12, 1024, False), ("llama-3.1-8b", 5, 768, True),
         ("llama-3.2-3b", 8, 512, True), ("llama-3.2-1b", 8, 128, True)]
STEPS, WARM = 30, 10


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def batch_of(shape, rows, width, mask):
    ids = torch.randint(0, SHAPES[shape]["vocab_size"], (rows, width))
    batch = {"input_ids": ids, "labels": ids.clone()}
    if mask:  # one token is padding: enough for the kernel with a mask
        batch["labels"][0, -1] = -100
        batch["attention_mask"] = (batch["labels"] != -100).long()
    return batch


def in_trainer(model, batch, rows, looks):
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(output_dir=folder, per_device_train_batch_size=rows, max_steps=STEPS, bf16=True, report_to=[],
                                     logging_steps=10, save_strategy="no", logging_nan_inf_filter=looks, disable_tqdm=True,
                                     remove_unused_columns=False)
        Trainer(model=model, args=settings, train_dataset=[{"n": i} for i in range(rows * STEPS)], data_collator=lambda _: dict(batch),
                callbacks=[clock]).train()
    return statistics.median(b - a for a, b in zip(clock.ends[WARM:], clock.ends[WARM + 1:]))


def step(model, optimizer, batch):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def bare(model, batch, waits):
    batch = {name: tensor.cuda() for name, tensor in batch.items()}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    times = []
    for i in range(STEPS):
        if waits or i == WARM:
            torch.cuda.synchronize()
        begun = time.perf_counter()
        whole = begun if i == WARM else (whole if i > WARM else 0)
        step(model, optimizer, batch)
        if waits:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    torch.cuda.synchronize()
    return statistics.median(times[WARM:]) if waits else (time.perf_counter() - whole) / (STEPS - WARM)


def kernels(model, batch):
    batch = {name: tensor.cuda() for name, tensor in batch.items()}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(3):
            step(model, optimizer, batch)
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in profile.key_averages()) / 3e6


def main():
    out = open(sys.argv[1], "a")
    budget = float(sys.argv[2]) if len(sys.argv) > 2 else 120
    begun = time.time()
    for shape, rows, width, mask in CASES:
        if time.time() - begun > budget:
            break
        torch.manual_seed(1)
        line = dict(shape=shape, rows=rows, width=width, mask=mask, gpu=torch.cuda.get_device_name())
        try:
            model = build(shape).train()
            batch = batch_of(shape, rows, width, mask)
            line.update(bare_waits=bare(model, batch, True), bare=bare(model, batch, False), kernels=kernels(model, batch),
                        trainer=in_trainer(model, batch, rows, True), trainer_no_look=in_trainer(model, batch, rows, False))
            line = {name: round(value, 5) if isinstance(value, float) else value for name, value in line.items()}
        except Exception as error:  # out of memory is a result too
            line["error"] = repr(error)[:200]
        model = None
        gc.collect()
        torch.cuda.empty_cache()
        print(json.dumps(line), flush=True)
        out.write(json.dumps(line) + "\n")
        out.flush()


main()
