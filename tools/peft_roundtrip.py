#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peft_roundtrip.py FOLDER [KIND…]: do PEFT, transformers and bitsandbytes understand our files, and we theirs?

Needs torch, transformers, peft and safetensors, and for the NF4 part bitsandbytes; a CPU is enough
but for the NF4 part. Needs build/gpuhours and build/fast/tests. In FOLDER, for each kind of model, or those named:

    base        a tiny model in fp32, saved by transformers
    peft        an adapter of random factors, saved by PEFT; peft_default: with its head, if adapted
    ours        the same adapter, read and written again by us (test/train/test_roundtrip.c)
    merged_x    base and adapter x folded together by gpuhours merge
    bnb         the base quantized and saved by bitsandbytes; ours_nf4: by us
    merged_nf4  bnb and peft folded together by gpuhours merge

Prints one line per check and exits with 1 if one failed. A kind on which something breaks off counts as failed, and the next begins.
"""

import json
import os
import shutil
import subprocess
import sys
import traceback

import peft
import torch
import transformers
from safetensors.torch import load_file

PROGRAM, TESTS = "build/gpuhours", "build/fast/tests"
SHAPE = dict(
    vocab_size=96,
    hidden_size=64,
    intermediate_size=80,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
)
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
KINDS = {
    "llama": (
        transformers.LlamaConfig,
        dict(tie_word_embeddings=False),
        dict(target_modules=LINEARS, modules_to_save=["lm_head"]),
    ),
    "qwen2": (
        transformers.Qwen2Config,
        dict(tie_word_embeddings=True),
        dict(target_modules=["q_proj", "v_proj"]),
    ),
    "qwen3": (
        transformers.Qwen3Config,
        dict(tie_word_embeddings=False, head_dim=24),
        dict(target_modules=LINEARS + ["lm_head"], use_rslora=True),
    ),
    "gpt_oss": (  # one pair of factors for all experts; PEFT has no dropout for them
        transformers.GptOssConfig,
        dict(
            tie_word_embeddings=False,
            head_dim=16,
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=8,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters=dict(rope_type="default", rope_theta=100.0),
            pad_token_id=None,
        ),
        dict(
            target_modules=["q_proj", "o_proj"],
            target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
            lora_dropout=0.0,
        ),
    ),
}
DTYPE = "dtype" if int(transformers.__version__.split(".")[0]) > 4 else "torch_dtype"
failures = 0


def verdict(kind, claim, value, limit):
    """One line; value must not exceed limit."""
    global failures
    good = value <= limit
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {kind}: {claim}: {value:.3g} (at most {limit:g})", flush=True)


def randomize(module, seed):
    """Weights and factors of a size at which each of them shows in the logits."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted(module.named_parameters()):
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            weight.copy_(1 + 0.1 * noise if "norm" in name else 0.15 * noise)


def load(folder, **how):
    how[DTYPE] = torch.float32
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **how).eval()


def logits(model):
    ids = torch.arange(40).reshape(2, 20) * 37 % SHAPE["vocab_size"]
    device = next(model.parameters()).device
    with torch.no_grad():
        return model(input_ids=ids.to(device)).logits.float().cpu()


def distance(a, b):
    return (a - b).abs().max().item() / max(1.0, b.abs().max().item())


def merge(base, adapter, out):
    subprocess.run(
        [PROGRAM, "merge", "--model", base, "--adapter", adapter, "--out", out], check=True
    )


def make(kind, folder):
    """The base and its adapter; returns the adapted model's logits."""
    config, shape, lora = KINDS[kind]
    model = transformers.AutoModelForCausalLM.from_config(config(**SHAPE, **shape))
    randomize(model, 1)
    model.save_pretrained(f"{folder}/base")
    adapted = peft.get_peft_model(
        load(f"{folder}/base"),
        peft.LoraConfig(**{**dict(r=4, lora_alpha=10, task_type="CAUSAL_LM", lora_dropout=0.05), **lora}),
    )
    for name, weight in adapted.named_parameters():
        if weight.requires_grad:
            seed = sum(name.encode())
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
            with torch.no_grad():
                weight.copy_(0.2 * noise)
    adapted.save_pretrained(f"{folder}/peft", save_embedding_layers=False)
    adapted.save_pretrained(f"{folder}/peft_default")
    return logits(adapted.eval())


def same_tensors(a, b):
    """0 if the files hold the same tensors bit for bit."""
    a, b = load_file(a), load_file(b)
    if a.keys() != b.keys():
        print(f"     only in one: {sorted(a.keys() ^ b.keys())}")
        return 1
    return sum(not torch.equal(a[name], b[name]) for name in a)


def check_adapter(kind, folder, wanted):
    plain = logits(load(f"{folder}/base"))
    verdict(kind, "the adapter matters: 1 over its effect", 1 / distance(plain, wanted), 100)
    verdict(
        kind,
        "tensors of our adapter that differ from PEFT's",
        same_tensors(f"{folder}/ours/adapter_model.safetensors", f"{folder}/peft/adapter_model.safetensors"),
        0,
    )
    ours = peft.PeftModel.from_pretrained(load(f"{folder}/base"), f"{folder}/ours").eval()
    verdict(kind, "logits of PEFT with our adapter", distance(logits(ours), wanted), 1e-4)
    for adapter in ("peft", "peft_default", "ours"):
        out = f"{folder}/merged_{adapter}"
        merge(f"{folder}/base", f"{folder}/{adapter}", out)
        verdict(kind, f"logits of base and {adapter}, merged", distance(logits(load(out)), wanted), 1e-4)


def adapter_delta(folder, name):
    """scale · B A of the linear with that weight, by the factors in PEFT's file; 0 where it has none."""
    config = json.load(open(f"{folder}/peft/adapter_config.json"))
    factors = load_file(f"{folder}/peft/adapter_model.safetensors")
    stem = "base_model.model." + name.removesuffix(".weight")
    if f"{stem}.lora_A.weight" not in factors:
        return 0
    root = config["r"] ** 0.5 if config["use_rslora"] else config["r"]
    a, b = factors[f"{stem}.lora_A.weight"], factors[f"{stem}.lora_B.weight"]
    return config["lora_alpha"] / root * (b @ a)


def check_nf4(kind, folder):
    """bitsandbytes on the GPU against our codes, our files and our merge."""
    from bitsandbytes.functional import QuantState, dequantize_4bit

    how = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
        llm_int8_skip_modules=["lm_head"],
    )
    theirs = load(f"{folder}/base", quantization_config=how, device_map={"": 0})
    theirs.save_pretrained(f"{folder}/bnb")
    shutil.copy(f"{folder}/bnb/config.json", f"{folder}/ours_nf4/config.json")
    a = load_file(f"{folder}/bnb/model.safetensors")
    b = load_file(f"{folder}/ours_nf4/model.safetensors")
    verdict(kind, "names that only one NF4 file has", len(a.keys() ^ b.keys()), 0)
    codes = [n for n in a if n + ".quant_state.bitsandbytes__nf4" in a]
    different = sum((a[n].flatten() != b[n].flatten()).sum().item() for n in codes)
    verdict(kind, "bytes of codes that differ", different / sum(a[n].numel() for n in codes), 1e-3)
    wide = max((a[n + ".nested_quant_map"] - b[n + ".nested_quant_map"]).abs().max() for n in codes)
    verdict(kind, "levels of the nested map", wide.item(), 1e-6)
    scales = sum((a[n + ".absmax"] != b[n + ".absmax"]).sum().item() for n in codes)
    verdict(kind, "scales that differ", scales / sum(a[n + ".absmax"].numel() for n in codes), 0.01)
    mine = load(f"{folder}/ours_nf4", device_map={"": 0})
    verdict(kind, "logits of our NF4 file in transformers", distance(logits(mine), logits(theirs)), 1e-2)

    merge(f"{folder}/bnb", f"{folder}/peft", f"{folder}/merged_nf4")
    merged = load_file(f"{folder}/merged_nf4/model.safetensors")
    worst = 0
    for name in codes:
        parts = {k[len(name) + 1 :]: v.cuda() for k, v in a.items() if k.startswith(name + ".")}
        state = QuantState.from_dict(parts, device=torch.device("cuda"))
        weight = dequantize_4bit(a[name].cuda(), state).float().cpu()
        worst = max(worst, distance(merged[name].float(), weight + adapter_delta(folder, name)))
    verdict(kind, "weights merged from bitsandbytes' file", worst, 1e-5)


def attempt(kind, run, *arguments):
    """What run() returns; None if it broke off."""
    global failures
    try:
        return run(*arguments)
    except Exception:
        failures += 1
        print(f"FAIL {kind}: {run.__name__}() broke off\n{traceback.format_exc(limit=-3)}", flush=True)
        return None


def main():
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(KINDS):
        sys.exit(__doc__)
    root, kinds = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(KINDS)
    shutil.rmtree(root, ignore_errors=True)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}", flush=True)
    wanted = {kind: attempt(kind, make, kind, f"{root}/{kind}") for kind in kinds}
    kinds = [kind for kind in kinds if wanted[kind] is not None]
    for kind in set(KINDS) - set(kinds):
        shutil.rmtree(f"{root}/{kind}", ignore_errors=True)  # half of one; our half leaves out what is not there
    ours = subprocess.run([TESTS, "roundtrip"], env=dict(os.environ, ROUNDTRIP=root))
    verdict("all", "exit code of our half", ours.returncode, 0)
    for kind in kinds:
        attempt(kind, check_adapter, kind, f"{root}/{kind}", wanted[kind])
    try:
        import bitsandbytes

        print(f"bitsandbytes {bitsandbytes.__version__}")
        nf4 = torch.cuda.is_available()
    except ImportError:
        nf4 = False
    for kind in kinds if nf4 else ():
        if kind == "gpt_oss":
            continue  # bitsandbytes leaves tensors of experts as they are
        attempt(kind, check_nf4, kind, f"{root}/{kind}")
    if not nf4:
        print("skip the NF4 part: no bitsandbytes, or no GPU")
    sys.exit(failures > 0)


main()
