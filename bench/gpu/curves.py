"""Loss curves of 200 steps: the engine on the CPU in fp32, on the GPU in bf16 (and fp8), and PyTorch in fp32.

    python3 bench/gpu/curves.py [OUT.jsonl] [SECONDS]

A small Llama learns to count: all weights from random ones; then, from the weights PyTorch ended with, LoRA r=16 learns to
count down. Each step is over all of the data, so that order plays no part; AdamW, constant rate, gradients cut to 1. Weights
and adapters are written by PyTorch and loaded everywhere. The gap of two curves is the largest relative difference of
their means over 10 steps; it must stay within the band stated below.
"""
import json
import os
import shutil
import sys
import time

import engine_run
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, SMOOTH, CONTEXT = 200, 10, 256
BANDS = {"cpu-fp32": 0.01, "cuda-bf16": 0.05, "cuda-fp8": 0.10}  # against PyTorch fp32; fp8 against bf16
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


def torch_curve(model, documents, rate):
    width = max(map(len, documents))
    ids = torch.zeros(len(documents), width, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for i, d in enumerate(documents):
        ids[i, : len(d)] = labels[i, : len(d)] = torch.tensor(d)
    ids, labels = ids.cuda(), labels.cuda()
    model.cuda().train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        logits = model(input_ids=ids).logits[:, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1),
                                                 ignore_index=-100)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return [float(x) for x in losses]


def save(model, folder):
    model.save_pretrained(folder)
    engine_run.add_tokenizer(folder)


def smooth(curve):
    return [sum(curve[i : i + SMOOTH]) / SMOOTH for i in range(len(curve) - SMOOTH + 1)]


def gap(a, b):
    pairs = list(zip(smooth(a), smooth(b)))
    return max((abs(x - y) / y for x, y in pairs), default=float("nan"))


def main():
    out = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    end = begun + (float(sys.argv[2]) if len(sys.argv) > 2 else 90)
    torch.backends.cuda.matmul.allow_tf32 = False
    root = engine_run.work_folder(1)
    rows = []
    try:
        model = small()
        for method in ("full", "lora"):
            folder = os.path.join(root, method)
            save(model, os.path.join(folder, "model"))
            documents = texts(1 if method == "full" else -1)
            engine_run.write_rows(os.path.join(folder, "rows.jsonl"), documents)
            ids = [engine_run.ids_of(t) for t in documents]
            options = dict(method=method, epochs=STEPS, max_steps=STEPS, accumulation=1000, context=CONTEXT, micro_batch=4,
                           rate=RATES[method], schedule="constant", warmup=0, decay=0, clip=1, save_every=0)
            if method == "lora":
                torch.manual_seed(4)
                model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
                                                         target_modules=engine_run.LINEARS))
                model.save_pretrained(os.path.join(folder, "adapter"), save_embedding_layers=False)
                options.update(rank=16, alpha=32, dropout=0, adapter=os.path.join(folder, "adapter"))
            curves = {"pytorch-fp32": torch_curve(model, ids, RATES[method])}
            model = model.cpu()  # of full: what LoRA begins with
            for name in ("cuda-bf16", "cuda-fp8", "cpu-fp32"):
                device, precision = name.split("-")
                if precision == "fp8" and method == "full":
                    continue
                limit = max(5, min(35 if device == "cpu" else 25, end - time.time()))
                metrics, seconds, problem = engine_run.train(
                    os.path.join(folder, "model"), os.path.join(folder, "rows.jsonl"), os.path.join(folder, name), limit,
                    device=device, precision=precision, **options)
                curves[name] = [m["loss"] for m in metrics]
                against = "cuda-bf16" if precision == "fp8" else "pytorch-fp32"
                row = dict(bench="curves", method=method, curve=name, against=against, steps=len(metrics),
                           seconds=round(seconds, 1), band=BANDS[name], gap=gap(curves[name], curves[against]))
                if metrics and metrics[0]["trained_tokens"] != sum(len(d) - 1 for d in ids):
                    problem = f"a step trains on {metrics[0]['trained_tokens']} tokens, not all of the data"
                if problem:
                    row["error"] = problem
                row["verdict"] = "PASS" if not problem and len(metrics) == STEPS and row["gap"] <= row["band"] else "FAIL"
                rows.append((row, curves[name]))
            rows.append((dict(bench="curves", method=method, curve="pytorch-fp32", verdict=""), curves["pytorch-fp32"]))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    marks = [1, 50, 100, 150, 200]
    for row, curve in rows:
        row["losses"] = {str(m): curve[m - 1] for m in marks if m <= len(curve)}
        print(json.dumps(row), flush=True)
        if out:
            out.write(json.dumps(dict(row, curve_losses=[round(x, 5) for x in curve])) + "\n")
    print(f"\n{'loss at step':<22}" + "".join(f"{m:>9}" for m in marks) + f"{'gap':>9}{'band':>7}")
    for row, curve in rows:
        line = f"{row['method'] + ' ' + row['curve']:<22}" + "".join(
            f"{curve[m - 1]:>9.4f}" if m <= len(curve) else f"{'-':>9}" for m in marks)
        if "gap" in row:
            line += f"{100 * row['gap']:>8.2f}%{100 * row['band']:>6.0f}% {row['verdict']} of {row['against']} {row.get('error', '')}"
        print(line)
    print(f"{time.time() - begun:.0f} s")
    sys.exit(any(row["verdict"] == "FAIL" for row, _ in rows))


main()
