# SPDX-License-Identifier: Apache-2.0
"""Loss curves of 200 steps: the engine on the CPU in fp32, on the GPU in bf16 (and fp8), and PyTorch in fp32.

    python3 bench/gpu/curves.py [OUT.jsonl] [SECONDS]

A small Llama learns to count: all weights from random ones; then, from the weights PyTorch ended with, LoRA r=16 learns to
count down. Each step is over all of the data, so that order plays no part; AdamW, constant rate, gradients cut to 1. Weights
and adapters are written by PyTorch and loaded everywhere.

The gap of two curves is the largest difference of their means over 10 steps as a share of what the reference learned, its
first mean less its last; it must stay within the band stated below. Relative to the loss itself the same difference says how
near to zero the curve has come: where it falls fastest, 0.438 against 0.460 is 5 % of the loss, and 0.4 % of a way down from
5.8. That number is printed beside it as "relative", and not judged.

What bf16 itself costs is shown by PyTorch's own curves, not judged: "pytorch-bf16" computes in bf16 and keeps weights and
moments in fp32, which is what the engine does without --states; "pytorch-bf16-states", of full training, keeps all in bf16
(as --states bf16, but rounds to the nearest, where the engine rounds by chance).
"""
import copy
import json
import math
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import engine_run
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, SMOOTH, CONTEXT = 200, 10, 256
# Against PyTorch fp32; fp8 against bf16. Sums of fp32 in another order drift too: 0.13 % of full training, 3e-6 of LoRA.
BANDS = {"cpu-fp32": 0.01, "cuda-bf16": 0.01, "cuda-fp8": 0.02}
CPU_SECONDS, CPU_THREADS = 60, 8
RATES = {"full": 5e-4, "lora": 1e-3}
begun = time.time()


def texts(step):
    """16 documents of different lengths; the numbers rise or fall."""
    return [f"count from {a}: " + " ".join(str(a + step * i) for i in range(6 + a % 17)) for a in range(100, 420, 20)]


def small():
    torch.manual_seed(3)
    return LlamaForCausalLM(LlamaConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                                        head_dim=64, intermediate_size=512, vocab_size=320, tie_word_embeddings=True,
                                        max_position_embeddings=512, rope_theta=1e4, rms_norm_eps=1e-5, use_cache=False,
                                        bos_token_id=None, eos_token_id=256, attn_implementation="sdpa"))


def torch_curve(model, documents, rate, kind):
    """kind: fp32, bf16 (weights and moments in fp32), bf16-states (all in bf16)."""
    width = max(map(len, documents))
    ids = torch.zeros(len(documents), width, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for i, d in enumerate(documents):
        ids[i, : len(d)] = labels[i, : len(d)] = torch.tensor(d)
    ids, labels = ids.cuda(), labels.cuda()
    model.cuda().train()
    trained = [p for p in model.parameters() if p.requires_grad]
    held = [p.detach().clone() for p in trained] if kind == "bf16" else trained
    if kind != "fp32":
        for p in model.parameters():  # and not model.bfloat16(), which would round the rotary frequencies too
            p.data = p.data.bfloat16()
    optimizer = torch.optim.AdamW(held, lr=rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        logits = model(input_ids=ids).logits[:, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1),
                                                 ignore_index=-100)
        loss.backward()
        if held is not trained:
            for h, p in zip(held, trained):
                h.grad, p.grad = p.grad.float(), None
        torch.nn.utils.clip_grad_norm_(held, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if held is not trained:
            with torch.no_grad():
                for h, p in zip(held, trained):
                    p.copy_(h)
        losses.append(loss.detach())
    return [float(x) for x in losses]


def save(model, folder):
    model.save_pretrained(folder)
    engine_run.add_tokenizer(folder)


def smooth(curve):
    return [sum(curve[i : i + SMOOTH]) / SMOOTH for i in range(len(curve) - SMOOTH + 1)]


def gaps(curve, reference):
    """The largest difference of two curves' means: of what the reference learned, and of the loss there."""
    pairs = list(zip(smooth(curve), smooth(reference)))
    if not pairs or not all(math.isfinite(x) and math.isfinite(y) for x, y in pairs):
        return float("nan"), float("nan")
    learned = smooth(reference)[0] - smooth(reference)[-1]
    if learned <= 0:
        return float("nan"), float("nan")
    return max(abs(x - y) for x, y in pairs) / learned, max(abs(x - y) / y for x, y in pairs)


def engine_row(method, name, ran, curves, trained_tokens):
    """What a run of the engine says about itself; adds its curve."""
    metrics, seconds, problem = ran
    curves[name] = [float("nan") if m["loss"] is None else m["loss"] for m in metrics]
    against = "cuda-bf16" if name == "cuda-fp8" else "pytorch-fp32"
    gap, relative = gaps(curves[name], curves[against])
    row = dict(bench="curves", method=method, curve=name, against=against, steps=len(metrics), seconds=round(seconds, 1),
               band=BANDS[name], gap=gap, relative=relative)
    if metrics and metrics[0]["trained_tokens"] != trained_tokens:
        problem = f"a step trains on {metrics[0]['trained_tokens']} tokens, not all of the data"
    if problem:
        row["error"] = problem
    row["verdict"] = "PASS" if not problem and len(metrics) == STEPS and gap <= row["band"] else "FAIL"
    return row


def shown_row(method, name, curves):
    row = dict(bench="curves", method=method, curve=name, verdict="shown")
    if name != "pytorch-fp32":
        row["off"], row["relative"] = gaps(curves[name], curves["pytorch-fp32"])
        row["against"] = "pytorch-fp32"
    return row


def start_lora(model, folder):
    torch.manual_seed(4)
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
                                             target_modules=engine_run.LINEARS))
    model.save_pretrained(os.path.join(folder, "adapter"), save_embedding_layers=False)
    return model


def train_all(root, pool, end):
    """(row, curve) of every run. The CPU's go on beside the GPU's and are waited for last."""
    rows, waiting = [], []
    model = small()
    for method in ("full", "lora"):
        folder = os.path.join(root, method)
        save(model, os.path.join(folder, "model"))
        documents = texts(1 if method == "full" else -1)
        engine_run.write_rows(os.path.join(folder, "rows.jsonl"), documents)
        ids = [engine_run.ids_of(t) for t in documents]
        tokens = sum(len(d) - 1 for d in ids)
        options = dict(method=method, epochs=STEPS, max_steps=STEPS, accumulation=1000, context=CONTEXT, micro_batch=4,
                       rate=RATES[method], schedule="constant", warmup=0, decay=0, clip=1, save_every=0)
        kinds = ["bf16"] + ["bf16-states"] * (method == "full")
        if method == "lora":
            model = start_lora(model, folder)
            options.update(rank=16, alpha=32, dropout=0, adapter=os.path.join(folder, "adapter"))

        def engine(name, limit, threads=None, folder=folder, options=options):
            device, precision = name.split("-")
            return engine_run.train(os.path.join(folder, "model"), os.path.join(folder, "rows.jsonl"),
                                    os.path.join(folder, name), limit, threads, device=device, precision=precision,
                                    **options)

        curves = {}
        waiting.append((method, pool.submit(engine, "cpu-fp32", CPU_SECONDS, CPU_THREADS), curves, tokens))
        for kind in kinds:
            curves["pytorch-" + kind] = torch_curve(copy.deepcopy(model), ids, RATES[method], kind)
        curves["pytorch-fp32"] = torch_curve(model, ids, RATES[method], "fp32")
        model = model.cpu()  # of full: what LoRA begins with
        for name in ["cuda-bf16"] + ["cuda-fp8"] * (method == "lora"):
            ran = engine(name, max(5, min(25, end - time.time())))
            rows.append((engine_row(method, name, ran, curves, tokens), curves[name]))
        for name in ["pytorch-fp32"] + ["pytorch-" + kind for kind in kinds]:
            rows.append((shown_row(method, name, curves), curves[name]))
    for method, run, curves, tokens in waiting:
        rows.append((engine_row(method, "cpu-fp32", run.result(), curves, tokens), curves["cpu-fp32"]))
    return sorted(rows, key=lambda r: r[0]["method"])  # the sort is stable


def main():
    out = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    end = begun + (float(sys.argv[2]) if len(sys.argv) > 2 else 95)
    torch.backends.cuda.matmul.allow_tf32 = False
    root = engine_run.work_folder(1)
    try:
        with ThreadPoolExecutor(2) as pool:
            rows = train_all(root, pool, end)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    marks = [1, 50, 100, 150, 200]
    for row, curve in rows:
        row["losses"] = {str(m): curve[m - 1] for m in marks if m <= len(curve)}
        print(json.dumps(row), flush=True)
        if out:
            out.write(json.dumps(dict(row, curve_losses=[round(x, 5) for x in curve])) + "\n")
    print(f"\n{'loss at step':<26}" + "".join(f"{m:>9}" for m in marks) + f"{'gap':>9}{'band':>7}{'relative':>10}")
    for row, curve in rows:
        line = f"{row['method'] + ' ' + row['curve']:<26}" + "".join(
            f"{curve[m - 1]:>9.4f}" if m <= len(curve) else f"{'-':>9}" for m in marks)
        if "against" in row:
            band = f"{100 * row['band']:>6.1f}%" if "band" in row else f"{'-':>7}"
            line += f"{100 * row.get('gap', row.get('off')):>8.3f}%{band}{100 * row['relative']:>9.2f}% "
            line += f"{row['verdict']} of {row['against']} {row.get('error', '')}"
        print(line)
    print(f"{time.time() - begun:.0f} s")
    sys.exit(any(row["verdict"] == "FAIL" for row, _ in rows))


main()
