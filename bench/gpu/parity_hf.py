# SPDX-License-Identifier: Apache-2.0
"""One training step of the engine on a GPU against transformers and PEFT: every gradient, tensor by tensor.

    python3 bench/gpu/parity_hf.py [OUT.jsonl] [SECONDS]

LoRA r=16 on all linears of the Llama-3.2-1B shape, factors B not zero; and all weights of its first 4 layers. Random
bf16 weights are saved by transformers and loaded by the engine; documents of several lengths. The engine's gradient is
its first moment after a step, over 1 - beta1. In bf16 and in fp32 it is compared with PyTorch in fp32 from the same weights
(what is judged), in bf16 also with PyTorch's bf16. Norm ratio within 1 %, cosine above 0.9995, every tensor. What PyTorch's own
bf16 makes of its fp32 is shown as a whole, and for each tensor of the engine's that fails: is it the type's rounding?
"""
import gc
import json
import os
import shutil
import sys
import time

import engine_run
import torch
from peft import LoraConfig, get_peft_model
from safetensors import safe_open
from transformers import LlamaForCausalLM

from shapes import config_of, make

LENGTHS = [1000, 37, 511, 640, 129, 300, 2, 257, 960, 64]
RATIO, COSINE, BETA1 = 0.01, 0.9995, 0.9
PARTS = (("lora", 16, 0.55), ("full", 4, 1.0))  # method, layers, when it has to end, as a share of the time
SHOWN = 12  # of the tensors that fail
begun = time.time()


def texts():
    generator = torch.Generator().manual_seed(5)
    return ["".join(chr(97 + i) for i in torch.randint(0, 26, (n,), generator=generator).tolist()) for n in LENGTHS]


def base(layers):
    torch.manual_seed(1)
    model = make(LlamaForCausalLM, config_of("llama-3.2-1b", num_hidden_layers=layers, bos_token_id=None, eos_token_id=256))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.copy_(1 + 0.1 * torch.randn_like(weight))
    return model


def adapt(model):
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
                                             target_modules=engine_run.LINEARS))
    torch.manual_seed(2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(0.05 * torch.randn_like(weight))
            if "lora_" in name and weight.dtype != torch.float32:
                raise RuntimeError(f"{name} is {weight.dtype}, PEFT was to make it fp32")
    return model


def gradients(model, documents):
    """Loss and gradients of the mean over all labelled tokens, a document at a time."""
    labelled = sum(len(d) - 1 for d in documents)
    total = 0.0
    model.train()
    model.zero_grad(set_to_none=True)
    sums = {}
    for d in documents:
        ids = torch.tensor([d], device="cuda")
        logits = model(input_ids=ids).logits[0, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum") / labelled
        loss.backward()
        total += loss.item()
        if next(model.parameters()).dtype == torch.bfloat16:  # sums of bf16 gradients would lose bits
            for name, p in model.named_parameters():
                if p.grad is not None:
                    sums[name] = sums[name] + p.grad.float() if name in sums else p.grad.float()
                    p.grad = None
    if not sums:
        sums = {name: p.grad.float() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return total, {name.replace(".default.", "."): g.detach() for name, g in sums.items()}


def apart(a, b):
    a, b = a.double().flatten(), b.double().flatten()
    if a.numel() != b.numel():
        return float("nan"), float("nan")
    na, nb = a.norm().item(), b.norm().item()
    if na == 0 and nb == 0:
        return 1.0, 1.0
    return (na / nb if nb else float("inf")), ((a @ b).item() / (na * nb) if na and nb else 0.0)


def compare(found, wanted, peer=None):
    """Worst ratio and cosine with their tensors, how many fail, and what a peer makes of those."""
    worst = dict(tensors=len(wanted), failed=0, worst_ratio=1.0, ratio_tensor="", worst_cosine=1.0, cosine_tensor="",
                 missing=[n for n in wanted if n not in found][:4], off=[])
    for name, reference in wanted.items():
        if name not in found:
            worst["failed"] += 1
            continue
        ratio, cosine = apart(found[name].cuda(), reference)
        good = abs(ratio - 1) <= RATIO and cosine > COSINE
        worst["failed"] += not good
        if not abs(ratio - 1) <= abs(worst["worst_ratio"] - 1):
            worst["worst_ratio"], worst["ratio_tensor"] = ratio, name
        if not cosine >= worst["worst_cosine"]:
            worst["worst_cosine"], worst["cosine_tensor"] = cosine, name
        if peer and not good and len(worst["off"]) < SHOWN:
            peer_ratio, peer_cosine = apart(peer[name], reference)
            worst["off"].append(dict(tensor=name, ratio=ratio, cosine=cosine, pytorch_bf16_ratio=peer_ratio,
                                     pytorch_bf16_cosine=peer_cosine))
    return worst


def engine_gradients(folder, method, precision, limit):
    out = os.path.join(folder, f"out-{method}-{precision}")
    options = dict(device="cuda", precision=precision, method=method, clip=0, rate=1e-6, schedule="constant", warmup=0,
                   decay=0, beta1=BETA1, max_steps=1, save_every=1, keep=1, context=1024, micro_batch=2, accumulation=1000)
    if method == "lora":
        options.update(rank=16, alpha=32, dropout=0, adapter=os.path.join(folder, "adapter"))
    metrics, seconds, problem = engine_run.train(os.path.join(folder, "model"), os.path.join(folder, "rows.jsonl"), out,
                                                 limit, **options)
    state = os.path.join(out, "checkpoints", "step-00000001", "state.safetensors")
    if not metrics or not os.path.exists(state):
        raise RuntimeError(problem or "no checkpoint was written")
    found = {}
    with safe_open(state, "pt", device="cpu") as file:
        for name in file.keys():
            if name.startswith("m."):
                found[name[2:]] = file.get_tensor(name).float() / (1 - BETA1)
    shutil.rmtree(out, ignore_errors=True)
    return metrics[0], found, seconds


def references_of(folder, method, layers, documents):
    """PyTorch's (loss, gradients) in bf16 and in fp32; the model and the adapter lie in the folder afterwards."""
    model = base(layers)
    model.save_pretrained(os.path.join(folder, "model"))
    engine_run.add_tokenizer(os.path.join(folder, "model"))
    if method == "lora":
        model = adapt(model)
        model.save_pretrained(os.path.join(folder, "adapter"), save_embedding_layers=False)
    narrow = gradients(model, documents)
    return {"bf16": narrow, "fp32": gradients(model.float(), documents)}


def engine_rows(folder, method, precision, documents, references, end):
    if time.time() > end:
        raise RuntimeError("no time left")
    metrics, found, seconds = engine_gradients(folder, method, precision, max(10, end - time.time()))
    tokens = sum(len(d) for d in documents), sum(len(d) - 1 for d in documents)
    trained = metrics["processed_tokens"], metrics["trained_tokens"]
    if trained != tokens:
        raise RuntimeError(f"{trained[0]} tokens, {trained[1]} labelled; PyTorch has {tokens[0]} and {tokens[1]}")
    rows = []
    for against in ("fp32", "bf16") if precision == "bf16" else ("fp32",):
        judged = against == "fp32"
        loss, wanted = references[against]
        rows.append(dict(what=f"{method}: engine {precision} against PyTorch {against}", judged=judged, loss=metrics["loss"],
                         reference_loss=loss, engine_seconds=round(seconds, 1),
                         **compare(found, wanted, references["bf16"][1] if judged else None)))
    return rows


def part(root, method, layers, end):
    """Rows of one method; a run that fails is a row, and the next goes on."""
    folder = os.path.join(root, method)
    os.makedirs(folder)
    try:
        documents = [engine_run.ids_of(t) for t in texts()]
        engine_run.write_rows(os.path.join(folder, "rows.jsonl"), texts())
        references = references_of(folder, method, layers, documents)
        gc.collect()
        torch.cuda.empty_cache()
        rows = [dict(what=f"{method}: PyTorch bf16 against its fp32", judged=False, loss=references["bf16"][0],
                     reference_loss=references["fp32"][0], **compare(references["bf16"][1], references["fp32"][1]))]
        for precision in ("bf16", "fp32"):
            try:
                rows += engine_rows(folder, method, precision, documents, references, end)
            except Exception as error:
                rows.append(dict(what=f"{method}: engine {precision}", judged=True, failed=1, error=repr(error)[:400]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def main():
    out = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else 90
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    root = engine_run.work_folder(16)
    rows = []
    try:
        engine_run.check_tokenizer(texts(), root)
        for method, layers, share in PARTS:
            try:
                found = part(root, method, layers, begun + share * limit)
            except Exception as error:
                found = [dict(what=f"{method}: 1B shape", judged=True, failed=1, error=repr(error)[:400])]
            gc.collect()
            torch.cuda.empty_cache()
            for row in found:
                row = dict(bench="parity_hf", **row)
                row["verdict"] = "shown" if not row["judged"] else "FAIL" if row["failed"] else "PASS"
                rows.append(row)
                print(json.dumps(row), flush=True)
                if out:
                    out.write(json.dumps(row) + "\n")
                    out.flush()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"\n{'step of the 1B shape':<44} {'tensors':>7} {'failed':>6} {'ratio':>8} {'cosine':>9} {'loss gap':>9}")
    for row in rows:
        if "error" in row:
            print(f"{row['what']:<44} {row['verdict']} {row['error']}")
            continue
        gap = abs(row["loss"] - row["reference_loss"]) / row["reference_loss"]
        print(f"{row['what']:<44} {row['tensors']:>7} {row['failed']:>6} {row['worst_ratio']:>8.5f} "
              f"{row['worst_cosine']:>9.6f} {gap:>9.1e} {row['verdict']} {row['cosine_tensor']}")
        if row["missing"]:
            print(f"    not in the engine's state: {', '.join(row['missing'])} …")
        for off in row["off"]:
            print(f"    off: ratio {off['ratio']:.5f} cosine {off['cosine']:.6f}, PyTorch's bf16 {off['pytorch_bf16_ratio']:.5f} "
                  f"{off['pytorch_bf16_cosine']:.6f} {off['tensor']}")
    print(f"{time.time() - begun:.0f} s")
    sys.exit(any(row["judged"] and row["failed"] for row in rows))


main()
