# SPDX-License-Identifier: Apache-2.0
"""Kernels of a step of transformers with PEFT, by what they are for, beside the step list; and what the Trainer adds to a bare loop.

    python3 bench/gpu/kernels.py predict           writes bench/gpu/kernels_predicted.json with GPUHOURS (build/gpuhours); needs no GPU
    python3 bench/gpu/kernels.py run OUT.jsonl [SECONDS]

"run" makes the shapes with random weights, adapters of rank 16 on all linears, autocast. A table per configuration: category, measured
milliseconds of one step, ours, ratio. Every operation of the forward pass lies under the label of the part of the model that started it, and
operations of the backward pass find theirs by autograd's sequence number; kernels of products are told from others by name. Then
milliseconds of the host for what the Trainer does between micro-batches, and a step of the Trainer, with and without its look at each loss, over one of a bare loop
of the same batch. The Trainer without it is the second on the same model, and was slower for a reason that is not known: it settles nothing.
"""
import collections
import gc
import json
import os
import statistics
import subprocess
import sys
import time

PREDICTED = "bench/gpu/kernels_predicted.json"
# name, shape, rows, width, whether a mask hides a token, recomputation
CASES = [("1b-masked", "llama-3.2-1b", 12, 1280, True, False), ("1b-full", "llama-3.2-1b", 4, 2048, False, False),
         ("8b-masked", "llama-3.1-8b", 5, 896, True, False), ("8b-full", "llama-3.1-8b", 2, 2048, False, False),
         ("8b-recomputed", "llama-3.1-8b", 4, 2048, True, True)]
OURS = {"adapter a": "adapter products", "adapter b": "adapter products", "adapter input": "adapter casts", "adapter sum": "adapter sums",
        "attention_norm": "norms", "mlp_norm": "norms", "final norm": "norms", "repeat keys": "mask", "clip": "optimizer",
        "residual": "sums of gradients, residuals", "sums of gradients": "sums of gradients, residuals", "attention layout": "mask", "head": "head"}
LINEARS = ("q", "k", "v", "o", "gate", "up", "down")


def category(operation):
    name = operation["name"]
    return "products" if name in LINEARS else OURS.get(name, name)


def predict():
    lines = {}
    for name, shape, rows, width, mask, recompute in CASES:
        command = [os.environ.get("GPUHOURS", "build/gpuhours"), "plan", "--model", shape, "--tokens", "10M", "--stack", "hf-peft", "--method", "lora",
                   "--gpu", "h200", "--gpus", "1", "--context", str(width), "--micro-batch", str(rows), "--global-batch", str(rows), "--parallel", "single",
                   "--batching", "max", "--checkpointing", "full" if recompute else "none", "--search", "off", "--ledger", "off", "--quiet", "--json"]
        if not mask:
            command += ["--mean-length", str(width)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if answer.returncode > 1:  # 1: the answer is no
            sys.exit(answer.returncode)
        step = json.loads(answer.stdout)["step"]
        assert (step["batch"]["rows"], step["batch"]["width"]) == (rows, width)
        ours = collections.Counter()
        for operation in step["operations"]:
            ours[category(operation)] += 1000 * operation["seconds"]
        parts = {part["name"]: round(1000 * part["seconds"], 3) for part in step["parts"] if part["seconds"]}
        lines[name] = dict(categories={key: round(ms, 3) for key, ms in ours.items()}, parts=parts, step=round(1000 * step["roofline_seconds"], 3))
    with open(PREDICTED, "w") as out:
        json.dump(lines, out, indent=1)
        out.write("\n")


def label(owner, attribute, part):
    """Runs the function under the name of a part of the model; the innermost one counts."""
    import torch

    function = getattr(owner, attribute)

    def labelled(*given, **more):
        with torch.profiler.record_function("part:" + part):
            return function(*given, **more)

    setattr(owner, attribute, labelled)


def label_model(model):
    from transformers.models.llama import modeling_llama

    label(modeling_llama, "apply_rotary_pos_emb", "rotary")
    for name, module in model.named_modules():
        kind = type(module).__name__
        if kind == "LlamaRMSNorm":
            label(module, "forward", "norms")
        elif kind == "LlamaMLP":
            label(module, "forward", "activation")
        elif kind == "LlamaAttention":
            label(module, "forward", "mask")  # what is neither the kernel, nor rotary, nor a linear: copies of keys and values
        elif kind == "LlamaDecoderLayer":
            label(module, "forward", "sums of gradients, residuals")
        elif kind == "LlamaForCausalLM":
            label(module, "loss_function", "loss")
        elif kind == "Embedding":
            label(module, "forward", "embedding")
        elif hasattr(module, "base_layer"):
            label(module, "forward", "adapter sums")
            label(module.base_layer, "forward", "products")
        elif ".lora_A." in name or ".lora_B." in name:
            label(module, "forward", "adapter products")
        elif name.endswith("lm_head"):
            label(module, "forward", "head")


def above(event):
    while event is not None:
        yield event
        event = event.cpu_parent


def part_of(event, forward):
    """The label over an operation, or, of the backward pass, that of the forward operation with its sequence number."""
    for each in above(event):
        if each.name.startswith("part:"):
            return each.name[5:]
        if each.name.startswith("autograd::engine::evaluate_function"):
            return forward.get(each.sequence_nr, "not found")
    return "not found"


def kernel_kind(name):
    lower = name.lower()
    if any(word in lower for word in ("gemm", "nvjet", "cutlass", "splitk", "gemv")) and "fmha" not in lower:
        return "product"
    if any(word in lower for word in ("cudnn", "fmha", "flash", "sdpa")):
        return "attention"
    return "other"


def by_category(profile):
    events = profile.events()
    forward = {}
    for event in events:
        if event.sequence_nr >= 0 and not any(each.name.startswith("autograd::") for each in above(event)):
            for each in above(event):
                if each.name.startswith("part:"):
                    forward[event.sequence_nr] = each.name[5:]
                    break
    sums, names, counts = collections.Counter(), collections.Counter(), collections.Counter()
    for event in events:
        if not event.kernels:
            continue
        part = part_of(event, forward)
        summed = event.cpu_parent is not None and event.cpu_parent.name.startswith("autograd::engine") and event.name in ("aten::add", "aten::add_")
        for kernel in event.kernels:
            kind = kernel_kind(kernel.name)
            where = part
            if kind == "attention":
                where = "attention"
            elif summed:
                where = "sums of gradients, residuals"
            elif kind != "product" and part == "adapter products":
                where = "adapter casts"
            elif kind != "product" and part == "adapter sums" and any(each.name in ("aten::_to_copy", "ToCopyBackward0") for each in above(event)):
                where = "adapter casts"
            elif kind != "product" and part in ("products", "head"):
                where = part + ", other kernels"
            sums[where] += kernel.duration / 1000
            counts[where] += 1
            names[where + ": " + kernel.name[:70]] += kernel.duration / 1000
    return sums, counts, names


def batch_of(shape, rows, width, mask):
    import torch

    from shapes import SHAPES

    ids = torch.randint(0, SHAPES[shape]["vocab_size"], (rows, width), device="cuda")
    batch = dict(input_ids=ids, labels=ids)
    if mask:
        batch["attention_mask"] = torch.ones_like(ids)
        batch["attention_mask"][-1, -1] = 0
    return batch


def bare_step(model, optimizer, batch):
    import torch

    with torch.autocast("cuda", torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    with torch.profiler.record_function("part:optimizer"):
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()


def milliseconds(function, times=7):
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        function()
        taken.append(1000 * (time.perf_counter() - begun))
    return round(statistics.median(taken[2:]), 3)


def trainer_step(model, batch, looks=True, steps=12):
    """The median milliseconds between the ends of the Trainer's steps; looks: whether it waits for each loss to see if it is a number."""
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    ends = []

    class Stamps(TrainerCallback):
        def on_step_end(self, *given, **more):
            ends.append(time.perf_counter())

    rows = len(batch["input_ids"])
    items = [{key: value[i].cpu() for key, value in batch.items()} for i in range(rows)] * steps
    arguments = TrainingArguments(output_dir="build/kernels", per_device_train_batch_size=rows, max_steps=steps, bf16=True, save_strategy="no", report_to="none",
                                  optim="adamw_torch_fused", remove_unused_columns=False, disable_tqdm=True, logging_steps=1000, learning_rate=1e-5, logging_nan_inf_filter=looks)
    Trainer(model=model, args=arguments, train_dataset=items, callbacks=[Stamps()]).train()
    torch.cuda.synchronize()
    model.__dict__.pop("forward", None)  # accelerate's, with autocast and the copy of the logits
    taken = [1000 * (after - before) for before, after in zip(ends[3:], ends[4:])]
    return round(statistics.median(taken), 2)


def measure(name, shape, rows, width, mask, recompute, ours):
    import torch

    from shapes import build

    model = build(shape).train()
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    batch = batch_of(shape, rows, width, mask)
    bare = milliseconds(lambda: bare_step(model, optimizer, batch), 9)
    host = {"model.train()": milliseconds(model.train), "clip, with its walk": milliseconds(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)), "zero_grad()": milliseconds(model.zero_grad),
            "modules": sum(1 for _ in model.modules())}
    trained, unseen = trainer_step(model, batch), trainer_step(model, batch, looks=False)
    label_model(model)
    bare_step(model, optimizer, batch)
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        bare_step(model, optimizer, batch)
    sums, counts, names = by_category(profile)
    total = sum(sums.values())
    print(f"\n{name}: {rows} x {width}, mask {mask}, recomputed {recompute}")
    print(f"  {'category':32} {'measured ms':>12} {'kernels':>8} {'ours ms':>9} {'ratio':>6}")
    for key in sorted(set(sums) | set(ours["categories"]), key=lambda key: -sums[key]):
        mine = ours["categories"].get(key)
        print(f"  {key:32} {sums[key]:12.2f} {counts[key]:8d} {mine if mine is not None else float('nan'):9.2f} {sums[key] / mine if mine else float('nan'):6.2f}")
    parts = ours["parts"]
    device = sum(parts.get(key, 0) for key in ("matrix products", "attention", "elementwise"))
    print(f"  {'on the device':32} {total:12.2f} {sum(counts.values()):8d} {device:9.2f} {total / device:6.2f}")
    print(f"  a step: bare loop {bare}, Trainer {trained} ({unseen} without its look at each loss), ours {ours['step']} (of it host {parts.get('host', 0)}); host: {host}", flush=True)
    return dict(name=name, shape=shape, rows=rows, width=width, mask=mask, recompute=recompute, measured={k: round(v, 3) for k, v in sums.items()}, kernels=counts,
                ours=ours, bare_ms=bare, trainer_ms=trained, trainer_no_look_ms=unseen, host_ms=host, longest={k: round(v, 3) for k, v in names.most_common(40)}, torch=torch.__version__)


def run(path, seconds="55"):
    import torch

    begun = time.time()
    with open(PREDICTED) as file:
        predicted = json.load(file)
    with open(path, "a") as out:
        for case in CASES:
            if time.time() - begun > float(seconds):
                break
            try:
                line = measure(*case, predicted[case[0]])
            except Exception as error:  # one case does not take the others with it
                line = dict(name=case[0], error=repr(error)[:400])
                print(line, flush=True)
            out.write(json.dumps(line) + "\n")
            out.flush()
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    {"predict": predict, "run": run}[sys.argv[1]](*sys.argv[2:])
