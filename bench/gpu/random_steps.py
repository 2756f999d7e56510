# SPDX-License-Identifier: Apache-2.0
"""Runs of transformers' Trainer that nobody chose: a random generator draws models and options, `gpuhours plan` forecasts each, then
they are measured.

    python3 bench/gpu/random_steps.py forecast COUNT SEED OUT.jsonl        here: draws and forecasts, before
    python3 bench/gpu/random_steps.py OUT.jsonl FORECAST.jsonl [SECONDS [FIRST]]    there: seconds a step, peak allocated memory
    python3 bench/gpu/random_steps.py summary OUT.jsonl                    how many are inside their 80 % ranges
    python3 bench/gpu/random_steps.py rows ID OUT.jsonl                    rows for data/runs.csv, numbered from ID, such as GPH-R00

Random weights of the catalog's shapes, whole rows of random tokens, bf16; LoRA by PEFT with adapters in fp32. What does not fit is
drawn too: its forecast is the probability that it fits.
"""
import csv
import gc
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time

# families of data/models.csv whose shape makes a configuration of this class
KINDS = {"llama1": "Llama", "llama2": "Llama", "llama3": "Llama", "llama3.1": "Llama", "llama3.2": "Llama", "tinyllama": "Llama",
         "yi": "Llama", "falcon3": "Llama", "smollm2": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen2.5": "Qwen2",
         "qwen3": "Qwen3", "gemma": "Gemma", "gemma2": "Gemma2", "gemma3": "Gemma3", "phi3": "Phi3", "phi3.5": "Phi3", "phi4": "Phi3",
         "smollm3": "SmolLM3", "olmo2": "Olmo2", "granite": "Granite", "starcoder2": "Starcoder2", "pythia": "GPTNeoX",
         "stablelm": "StableLm", "phi": "Phi", "opt": "OPT", "gpt2": "GPT2", "glm": "Glm"}
CLASSES = {"GPT2": "GPT2LMHeadModel"}
TARGETS = ["q,v", "q,k,v,o", "all-linear"]
OPTIMIZERS = {"adamw": "adamw_torch_fused", "sgd": "sgd", "adafactor": "adafactor"}


def models():
    with open("data/models.csv") as file:
        return {row["name"]: row for row in csv.DictReader(line for line in file if not line.startswith("#"))}


# --- here ----------------------------------------------------------------------------------------------------------------------


def draw(rng, catalog):
    full = rng.random() < 0.4
    most = 9e9 if full else 16e9
    model = rng.choice([row for row in catalog.values() if row["family"] in KINDS and 3e8 < float(row["parameters"]) < most
                        and not float(row["experts"] or 0)])
    split_heads = KINDS[model["family"]] not in ("Phi3", "GPTNeoX", "GPT2")  # others fuse q, k and v: adapters on all linears
    width = rng.choice([w for w in (128, 256, 512, 1024, 2048, 4096, 8192, 16384) if w <= float(model["max_positions"])])
    rows = rng.choice([r for r in (1, 2, 4, 8, 16, 32, 64) if 256 <= r * width <= 65536])
    case = dict(model=model["name"], method="full" if full else "lora", width=width, rows=rows,
                recompute=rng.random() < 0.4, accumulation=rng.choice([1, 1, 1, 4]),
                attention=rng.choice(["sdpa"] * 5 + ["eager"]),
                optimizer=rng.choice(["adamw"] * 6 + ["sgd", "adafactor"]))
    if full:
        case["weights"] = rng.choice(["bf16", "fp32"])
    else:
        case["rank"] = rng.choice([4, 8, 16, 32, 64, 128, 256])
        case["targets"] = rng.choice(TARGETS) if split_heads else "all-linear"
    return case


def forecast(case, program="build/gpuhours"):
    command = [program, "plan", "--model", case["model"], "--tokens", str(case["rows"] * case["accumulation"] * case["width"] * 1000),
               "--packing", "on", "--context", str(case["width"]), "--micro-batch", str(case["rows"]), "--gpu", "h200", "--gpus", "1",
               "--global-batch", str(case["rows"] * case["accumulation"]), "--method", case["method"],
               "--checkpointing", "full" if case["recompute"] else "none", "--optimizer", case["optimizer"], "--search", "off",
               "--attention", case["attention"], "--ledger", "off", "--quiet", "--json"]
    if case["method"] == "lora":
        command += ["--stack", "hf-peft", "--rank", str(case["rank"]), "--targets", case["targets"]]
    else:
        command += ["--stack", "hf", "--weights", case["weights"], "--states", case["weights"]]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:  # what does not fit has a plan, too
        return dict(case, refused=done.stderr.strip())
    plan = json.loads(done.stdout)
    speed, memory = plan["tokens_per_second"], plan["memory"]
    total, allocated = memory["total_range_bytes"], memory["allocated_bytes"] / 2**30
    return dict(case, speed=speed, allocated_gib=[allocated * total[p] / total["p50"] for p in ("p10", "p50", "p90")],
                fits=memory["fit_probability"])


def forecast_all(count, seed, path):
    rng, catalog = random.Random(seed), models()
    with open(path, "w") as out:
        for _ in range(count):
            print(json.dumps(forecast(draw(rng, catalog))), file=out, flush=True)


# --- there ---------------------------------------------------------------------------------------------------------------------


def config_of(transformers, row, case):
    number = lambda name: int(float(row[name] or 0))
    kind = KINDS[row["family"]]
    more = dict(vocab_size=number("vocabulary"), hidden_size=number("width"), num_hidden_layers=number("layers"),
                num_attention_heads=number("heads"), intermediate_size=number("ffn_width"), use_cache=False,
                tie_word_embeddings=row["tied_embeddings"] == "yes", attn_implementation=case["attention"],
                max_position_embeddings=max(number("max_positions"), case["width"]))
    if kind == "GPT2":
        more = dict(vocab_size=number("vocabulary"), n_embd=number("width"), n_layer=number("layers"), n_head=number("heads"),
                    n_positions=number("max_positions"), use_cache=False, attn_implementation=case["attention"])
    elif kind == "OPT":
        more["ffn_dim"] = more.pop("intermediate_size")
        more["word_embed_proj_dim"] = more["hidden_size"]
    elif kind != "GPTNeoX":
        more["num_key_value_heads"] = number("kv_heads")
    if kind not in ("GPT2", "OPT", "GPTNeoX", "Phi", "StableLm", "Starcoder2", "Phi3"):
        more["head_dim"] = number("head_size")
    if kind == "Mistral":
        more["sliding_window"] = number("sliding_window") or None
    if kind in ("Phi3", "Glm", "SmolLM3"):
        more["pad_token_id"] = 0
    if kind == "Llama" and row["qkv_bias"] == "yes":
        more["attention_bias"] = True
    if kind == "StableLm":
        more["use_qkv_bias"] = row["qkv_bias"] == "yes"
    return kind, getattr(transformers, {"Gemma3": "Gemma3TextConfig"}.get(kind, kind + "Config"))(**more)


def build(row, case):
    import torch
    import transformers

    kind, config = config_of(transformers, row, case)
    torch.set_default_dtype(torch.float32 if case.get("weights") == "fp32" else torch.bfloat16)
    with torch.device("cuda"):
        model = getattr(transformers, CLASSES.get(kind, kind + "ForCausalLM"))(config)
    torch.set_default_dtype(torch.float32)
    if abs(model.num_parameters() / float(row["parameters"]) - 1) > 0.01:
        raise ValueError(f"{model.num_parameters()} parameters instead of {row['parameters']}")
    if case["method"] == "lora":
        from peft import LoraConfig, get_peft_model

        names = {name.split(".")[-1] for name, _ in model.named_modules()}
        picked = {"q,v": {"q_proj", "v_proj"}, "q,k,v,o": {"q_proj", "k_proj", "v_proj", "o_proj", "out_proj", "dense"}}
        targets = "all-linear" if case["targets"] == "all-linear" else sorted(picked[case["targets"]] & names)
        model = get_peft_model(model, LoraConfig(r=case["rank"], lora_alpha=2 * case["rank"], target_modules=targets, task_type="CAUSAL_LM"))
    return model


def train(row, case, warm=4):
    """Seconds of a step and peak allocated memory. The GPU is waited for only before and after what is timed."""
    import torch
    import transformers

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = build(row, case)
    vocabulary, clocks = int(row["vocabulary"]), []
    steps = warm + (6 if case["rows"] * case["width"] * case["accumulation"] * float(row["parameters"]) > 2e13 else 20)

    def batch(_):
        ids = torch.randint(0, vocabulary, (case["rows"], case["width"]))
        return dict(input_ids=ids, labels=ids.clone())

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, arguments, state, control, **_):
            if state.global_step in (warm, steps):
                torch.cuda.synchronize()
                clocks.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=case["rows"], gradient_accumulation_steps=case["accumulation"], max_steps=steps,
            bf16=True, optim=OPTIMIZERS[case["optimizer"]], report_to="none", logging_strategy="no", save_strategy="no",
            remove_unused_columns=False, gradient_checkpointing=case["recompute"],
            gradient_checkpointing_kwargs={"use_reentrant": False} if case["recompute"] else None)
        transformers.Trainer(model, arguments, train_dataset=[0] * (case["rows"] * case["accumulation"] * steps), data_collator=batch,
                             callbacks=[Clock()]).train()
    seconds = (clocks[1] - clocks[0]) / (steps - warm)
    return dict(step_s=round(seconds, 5), measured_speed=round(case["rows"] * case["width"] * case["accumulation"] / seconds, 1),
                measured_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2))


def measure_all(path, forecasts, budget, first):
    import torch

    catalog, begun = models(), time.time()
    with open(path, "a") as out, open(forecasts) as file:
        for case in list(map(json.loads, file))[first:]:
            if time.time() - begun > budget:
                break
            if "refused" in case:
                continue
            try:
                measured = train(catalog[case["model"]], case)
            except torch.OutOfMemoryError:
                measured = dict(failed="out of memory")
            except Exception as error:  # of this script's making, or the library's
                measured = dict(error=repr(error)[:300])
            gc.collect()
            torch.cuda.empty_cache()
            print(json.dumps(dict(case, **measured)), flush=True)
            print(json.dumps(dict(case, **measured)), file=out, flush=True)


def summary(path):
    rows = list(map(json.loads, open(path)))
    for kind, said, low, high in (("measured_speed", lambda r: r["speed"]["p50"], lambda r: r["speed"]["p10"], lambda r: r["speed"]["p90"]),
                                  ("measured_gib", lambda r: r["allocated_gib"][1], lambda r: r["allocated_gib"][0], lambda r: r["allocated_gib"][2])):
        ran = [r for r in rows if kind in r]
        off = sorted(abs(math.log(r[kind] / said(r))) for r in ran)
        inside = sum(low(r) <= r[kind] <= high(r) for r in ran)
        print(f"{kind}: {inside} of {len(ran)} inside, off by {math.exp(statistics.median(off)):.3f} at the median, "
              f"{math.exp(off[int(0.9 * (len(off) - 1))]):.2f} at P90, measured over forecast "
              f"{math.exp(statistics.median(math.log(r[kind] / said(r)) for r in ran)):.3f}")
        for r in sorted(ran, key=lambda r: -abs(math.log(r[kind] / said(r)))):
            if not low(r) <= r[kind] <= high(r):
                print(f"  {r[kind] / said(r):.2f}", {k: v for k, v in r.items() if k not in ("speed", "allocated_gib", "step_s")})
    judged = [(r["fits"], "measured_gib" in r) for r in rows if "measured_gib" in r or "failed" in r]
    print(f"fit: {sum((p >= 0.5) == ran for p, ran in judged)} of {len(judged)} right;", "failed:",
          [round(p, 3) for p, ran in judged if not ran], "ran below a half:", [round(p, 3) for p, ran in judged if ran and p < 0.5])


def reference_rows(first, path):
    with open("data/runs.csv") as file:
        columns = next(csv.reader(line for line in file if not line.startswith("#")))
    prefix, number = first[:-2], int(first[-2:])
    writer = csv.DictWriter(sys.stdout, columns, restval="", lineterminator="\n")
    cases = [case for case in map(json.loads, open(path)) if "error" not in case]
    for number, case in enumerate(cases, number):
        stack = "hf-peft" if case["method"] == "lora" else "hf"
        row = dict(id=f"{prefix}{number:02}", source="gpuhours, transformers' Trainer on one H200, drawn at random, 2026-11",
                   model=case["model"], method=case["method"], lora_rank=case.get("rank", ""), lora_targets=case.get("targets", ""),
                   precision="bf16", seq_len=case["width"], packed="yes", micro_batch=case["rows"], grad_accum=case["accumulation"],
                   checkpointing="full" if case["recompute"] else "none", parallelism="single", framework=stack, stack=stack,
                   attention="eager" if case["attention"] == "eager" else "", weights=case.get("weights", ""),
                   states=case.get("weights", ""), optimizer=case["optimizer"], bare_loop="no", gpu="H200", n_gpus=1)
        if "failed" in case:
            row.update(outcome="out-of-memory")
        else:
            row.update(tokens_per_s_total=case["measured_speed"], tokens_per_s_per_gpu=case["measured_speed"], rate_covers="steps",
                       peak_mem_gib_per_gpu=case["measured_gib"], mem_kind="allocated")
        writer.writerow(row)


if __name__ == "__main__":
    if sys.argv[1] == "forecast":
        forecast_all(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1] == "summary":
        summary(sys.argv[2])
    elif sys.argv[1] == "rows":
        reference_rows(sys.argv[2], sys.argv[3])
    else:
        measure_all(sys.argv[1], sys.argv[2], *(float(sys.argv[3]) if len(sys.argv) > 3 else 500, int(sys.argv[4]) if len(sys.argv) > 4 else 0))
