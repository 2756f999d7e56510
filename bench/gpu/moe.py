# SPDX-License-Identifier: Apache-2.0
"""Times steps of mixtures of experts in transformers with PEFT: grouped products as they come, and the loop over experts.

    python3 bench/gpu/moe.py OUT.jsonl [SECONDS]

Random weights of real shapes, made on the GPU in bf16; LoRA of rank 16 on attention alone, adapters in fp32 under
autocast as the Trainer runs them; 4,096 tokens in one row, full, nothing recomputed unless said; fused AdamW. One JSON
line per case: the median step after two that warm up, tokens/s, torch's peak of allocated memory, and which
implementation of the experts transformers chose. Then the two parts that the forecast takes from elsewhere: the rate
of grouped products and the backward pass of an index. bench/gpu/moe_predicted.csv has the forecasts, made before.
"""
import gc
import json
import statistics
import sys
import time

import torch
from transformers import (DeepseekV2Config, DeepseekV2ForCausalLM, GraniteMoeConfig, GraniteMoeForCausalLM, MixtralConfig,
                          MixtralForCausalLM, OlmoeConfig, OlmoeForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

from shapes import make

TOKENS = 4096
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
SHAPES = {
    "olmoe-1b-7b": (OlmoeConfig, OlmoeForCausalLM, ATTENTION, dict(
        hidden_size=2048, intermediate_size=1024, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=16,
        num_experts=64, num_experts_per_tok=8, vocab_size=50304)),
    "granite-3-3b-a800m": (GraniteMoeConfig, GraniteMoeForCausalLM, ATTENTION, dict(
        hidden_size=1536, intermediate_size=512, num_hidden_layers=32, num_attention_heads=24, num_key_value_heads=8,
        num_local_experts=40, num_experts_per_tok=8, vocab_size=49155, tie_word_embeddings=True)),
    "mixtral-16-layers": (MixtralConfig, MixtralForCausalLM, ATTENTION, dict(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
        num_local_experts=8, num_experts_per_tok=2, vocab_size=32000)),
    "deepseek-v2-lite-16b": (DeepseekV2Config, DeepseekV2ForCausalLM, ["q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"], dict(
        hidden_size=2048, intermediate_size=10944, num_hidden_layers=27, num_attention_heads=16, num_key_value_heads=16,
        n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1408,
        first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64,
        v_head_dim=128, n_group=1, topk_group=1, topk_method="greedy", vocab_size=102400)),
    "qwen3-30b-a3b": (Qwen3MoeConfig, Qwen3MoeForCausalLM, ATTENTION, dict(
        hidden_size=2048, intermediate_size=6144, num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4, head_dim=128,
        num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True, vocab_size=151936)),
}
# shape, experts ("" is as transformers has it), recomputation
CASES = [(shape, "", False) for shape in SHAPES] + [("olmoe-1b-7b", "eager", False), ("olmoe-1b-7b", "", True),
                                                     ("mixtral-16-layers", "eager", False), ("granite-3-3b-a800m", "eager", False),
                                                     ("qwen3-30b-a3b", "", True), ("qwen3-30b-a3b", "eager", False)]


def spread(model):
    """Embeddings made large and attention's output small: tokens stay apart, and routing is as even as a trained model's. Random
    weights alone make tokens alike and send them all to the same few experts, which a loop over experts then skips."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_tokens" in name:
                weight.normal_()
            elif "o_proj" in name and "lora" not in name:
                weight.mul_(0.02)
    return model


def routing(model, ids):
    """Experts that a layer runs, and the load of its busiest over the mean of all: medians over layers."""
    seen = []

    def look(module, args, kwargs):
        for value in list(args) + list(kwargs.values()):
            if torch.is_tensor(value) and value.dtype == torch.int64 and value.dim() == 2:
                counts = torch.bincount(value.flatten()).float()
                seen.append((int((counts > 0).sum()), float(counts.max() / counts.sum()) * experts_of(model)))
                return

    handles = [m.register_forward_pre_hook(look, with_kwargs=True) for m in model.modules() if type(m).__name__.endswith("Experts")]
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        model(input_ids=ids)
    for handle in handles:
        handle.remove()
    return dict(hit=statistics.median(s[0] for s in seen), busiest=round(statistics.median(s[1] for s in seen), 2)) if seen else {}


def experts_of(model):
    config = model.get_base_model().config
    return next(getattr(config, name) for name in ("num_experts", "num_local_experts", "n_routed_experts") if getattr(config, name, None))


def build(shape, experts, recompute):
    from peft import LoraConfig, get_peft_model

    kind, model_kind, targets, sizes = SHAPES[shape]
    config = kind(**sizes, max_position_embeddings=TOKENS, use_cache=False, attn_implementation="sdpa")
    model = make(model_kind, config)
    if experts:
        model.set_experts_implementation(experts)
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=targets, task_type="CAUSAL_LM"))
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    return spread(model).train()


def measure(shape, experts, recompute, steps=8, warm=2):
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    model = build(shape, experts, recompute)
    torch.cuda.synchronize()
    made = time.perf_counter() - begun
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    times = []
    for _ in range(steps):
        ids = torch.randint(0, SHAPES[shape][3]["vocab_size"], (1, TOKENS), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    step, routed = statistics.median(times[warm:]), routing(model, ids)
    config = model.get_base_model().config
    return dict(shape=shape, experts=str(getattr(config, "_experts_implementation", None)), recompute=recompute,
                step_s=round(step, 5), tokens_per_s=round(TOKENS / step, 1), made_s=round(made, 1),
                allocated_gib=round(torch.cuda.max_memory_allocated() / 2 ** 30, 3),
                reserved_gib=round(torch.cuda.max_memory_reserved() / 2 ** 30, 3),
                parameters=sum(p.numel() for p in model.parameters()), **routed)


def timed(run, times=10):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def parts(experts=128, active=8, width=2048, inner=768):
    """Of Qwen3-30B-A3B: FLOP/s of its grouped products, bytes of the backward pass of an index over an ideal copy."""
    rows = TOKENS * active
    x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
    weights = torch.randn(experts, width, 2 * inner, device="cuda", dtype=torch.bfloat16)
    ends = torch.arange(1, experts + 1, device="cuda", dtype=torch.int32) * (rows // experts)
    product = torch.nn.functional.grouped_mm if hasattr(torch.nn.functional, "grouped_mm") else torch._grouped_mm
    line = dict(part="grouped product", tflops=round(2 * rows * width * 2 * inner / timed(lambda: product(x, weights, offs=ends)) / 1e12, 1))
    copy = timed(lambda: x.clone())
    for name, index, source in (("unique", torch.randperm(rows, device="cuda"), x),
                                ("repeated", torch.arange(TOKENS, device="cuda").repeat_interleave(active), x[:TOKENS].clone())):
        source = source.detach().requires_grad_()
        taken, gradient = source[index], torch.ones_like(x)
        seconds = timed(lambda: torch.autograd.grad(taken, source, gradient, retain_graph=True))
        line[f"index_backward_{name}_copies"] = round(seconds / copy, 2)
    line["copy_tb_per_s"] = round(2 * x.nbytes / copy / 1e12, 2)
    return line


def main():
    out = open(sys.argv[1], "a")
    budget = float(sys.argv[2]) if len(sys.argv) > 2 else 80
    begun = time.time()
    print(json.dumps(dict(torch=torch.__version__, gpu=torch.cuda.get_device_name())), flush=True)
    for case in CASES + [None]:
        if time.time() - begun > budget:
            break
        try:
            row = measure(*case) if case else parts()
        except Exception as error:  # one case does not take the others with it
            row = dict(case=case, error=repr(error)[:300])
        gc.collect()
        torch.cuda.empty_cache()
        for stream in (sys.stdout, out):
            stream.write(json.dumps(row) + "\n")
            stream.flush()


if __name__ == "__main__":
    main()
