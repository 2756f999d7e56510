# SPDX-License-Identifier: Apache-2.0
"""Memory of QLoRA in transformers with PEFT, for the outcomes of a table of May 2023 (runs HFB-001 to HFB-011).

    python3 bench/gpu/quantized_memory.py OUT.jsonl [SECONDS]

LLaMA 7B and 13B of random bytes, one row a micro-batch, four a step, eager attention, no autocast, norms, embedding and head in fp32,
as Hugging Face's trainers prepared such models. bitsandbytes is not on the machine: its 4-bit linears are stood in for by ones that hold
and make tensors of the same sizes (codes, statistics, a 16-bit copy in each pass), so bytes are measured, not values. Each case
is run with all of the card and, where the table has it near a T4's limit, with the 14.35 GiB that a T4 leaves.
"""
import gc
import json
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

GIB = 2**30
T4 = 14.35  # GiB of 14.75, without a CUDA context
SHAPES = {
    "7b": dict(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32),
    "13b": dict(hidden_size=5120, intermediate_size=13824, num_hidden_layers=40, num_attention_heads=40),
}
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RECIPES = [(64, ["q_proj", "v_proj"], 0.1), (64, ALL, 0.1), (16, ["q_proj", "v_proj"], 0.05)]  # rank, targets, dropout
CASES = [("7b", False, 512, False), ("7b", False, 1024, False), ("7b", False, 1024, True), ("13b", False, 512, False),
         ("13b", False, 512, True), ("13b", False, 1024, True), ("13b", True, 1024, True)]  # shape, nested, tokens, checkpointing


class Product(torch.autograd.Function):
    """x W of weights that are unpacked for it; backward unpacks them again."""

    @staticmethod
    def forward(ctx, x, shape, dtype):
        ctx.shape, ctx.dtype = shape, dtype
        return torch.nn.functional.linear(x, torch.zeros(shape, dtype=dtype, device=x.device))

    @staticmethod
    def backward(ctx, g):
        weight = torch.zeros(ctx.shape, dtype=ctx.dtype, device=g.device)
        return torch.matmul(g, weight.to(g.dtype)), None, None


class Linear4(torch.nn.Linear):
    def __init__(self, old, nested):
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features, self.bias = old.in_features, old.out_features, None
        n = old.in_features * old.out_features
        whole = torch.empty(n, dtype=torch.float16, device="cuda")  # as it is loaded
        self.codes = torch.zeros(n // 2, dtype=torch.uint8, device="cuda")
        self.statistics = torch.zeros(n // 64, dtype=torch.uint8 if nested else torch.float32, device="cuda")
        self.nested = torch.zeros(n // 64 // 256 if nested else 0, device="cuda")
        del whole
        self.weight = torch.nn.Parameter(torch.empty(0, device="cuda"), requires_grad=False)

    def forward(self, x):
        return Product.apply(x.half(), (self.out_features, self.in_features), torch.float16).to(x.dtype)


def build(shape, nested, checkpointing, rank, targets, dropout):
    config = LlamaConfig(vocab_size=32000, max_position_embeddings=2048, attn_implementation="eager", use_cache=False, **SHAPES[shape])
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and "lm_head" not in name:
            parent, own = name.rsplit(".", 1)
            setattr(model.get_submodule(parent), own, Linear4(module, nested))
    for name, value in list(model.named_parameters()):
        if value.is_meta:
            parent, own = name.rsplit(".", 1)
            setattr(model.get_submodule(parent), own, torch.nn.Parameter(torch.zeros(value.shape, device="cuda"), requires_grad=False))
    for module in model.modules():
        for name, value in list(module._buffers.items()):
            if value is not None and value.is_meta:
                module._buffers[name] = torch.ones(value.shape, dtype=value.dtype, device="cuda")
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=True))
        model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=16, lora_dropout=dropout, target_modules=targets, task_type="CAUSAL_LM"))
    return model.cuda().train()


def steps(model, width):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for _ in range(2):
        for _ in range(4):
            ids = torch.randint(0, 32000, (1, width), device="cuda")
            (model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss / 4).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def run(case, recipe, limit_gib):
    shape, nested, width, checkpointing = case
    rank, targets, dropout = recipe
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit_gib * GIB / torch.cuda.get_device_properties(0).total_memory))
    row = dict(shape=shape, nested=nested, width=width, checkpointing=checkpointing, rank=rank, targets=len(targets), dropout=dropout,
               limit_gib=limit_gib, fits=True)
    try:
        steps(build(shape, nested, checkpointing, rank, targets, dropout), width)
    except torch.cuda.OutOfMemoryError:
        row["fits"] = False
    row["allocated_gib"] = round(torch.cuda.max_memory_allocated() / GIB, 2)
    row["reserved_gib"] = round(torch.cuda.max_memory_reserved() / GIB, 2)
    return row


def main():
    end = time.time() + (float(sys.argv[2]) if len(sys.argv) > 2 else 100)
    with open(sys.argv[1], "a") as out:
        for recipe in RECIPES:
            for case in CASES:
                near = case[2] == 1024 and case[3]
                for limit_gib in (130, T4) if near else (130,):
                    if time.time() < end:
                        line = json.dumps(run(case, recipe, limit_gib))
                        print(line, flush=True)
                        out.write(line + "\n")


main()
