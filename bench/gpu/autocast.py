# SPDX-License-Identifier: Apache-2.0
"""Steps of transformers whose weights are fp32 and whose products are cast by torch.autocast: forecasts, and what they were held against.

    python3 bench/gpu/autocast.py forecast OUT.csv       rows for gpuhours validate, with tokens/s of 1: the forecasts, before
    python3 bench/gpu/autocast.py OUT.jsonl [SECONDS]    there: median step, tokens/s, peak allocated memory

Random weights, bf16 autocast, adapters of rank 16 on all linears as PEFT makes them, fused AdamW, sdpa.
"""
import gc
import json
import statistics
import sys
import time

SHAPES = {
    "llama-3.2-1b": dict(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                         intermediate_size=8192, vocab_size=128256, tie_word_embeddings=True),
    "llama-3.2-3b": dict(hidden_size=3072, num_hidden_layers=28, num_attention_heads=24, num_key_value_heads=8, head_dim=128,
                         intermediate_size=8192, vocab_size=128256, tie_word_embeddings=True),
    "llama-3.1-8b": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                         intermediate_size=14336, vocab_size=128256, tie_word_embeddings=False),
}
# model, method, rows, width, recomputation
CASES = [("llama-3.2-1b", "lora", 4, 1024, False), ("llama-3.2-1b", "lora", 4, 2048, True), ("llama-3.2-1b", "full", 4, 1024, False),
         ("llama-3.2-1b", "full", 4, 2048, True), ("llama-3.2-3b", "lora", 2, 2048, False), ("llama-3.2-3b", "full", 2, 2048, True),
         ("llama-3.1-8b", "lora", 2, 1024, False), ("llama-3.1-8b", "lora", 4, 2048, True)]
COLUMNS = ("id,source,model,method,lora_rank,lora_targets,precision,seq_len,packed,micro_batch,grad_accum,checkpointing,parallelism,"
           "framework,stack,weights,autocast,bare_loop,gpu,n_gpus,tokens_per_s_total,tokens_per_s_per_gpu,rate_covers,"
           "peak_mem_gib_per_gpu,mem_kind")


def forecast(path):
    with open(path, "w") as out:
        print(COLUMNS, file=out)
        for i, (model, method, rows, width, recompute) in enumerate(CASES):
            lora = method == "lora"
            stack = "hf-peft" if lora else "hf"
            print(f"GPH-U{i:02},autocast.py,{model},{method},{16 if lora else ''},{'all-linear' if lora else ''},bf16,{width},yes,{rows},1,"
                  f"{'full' if recompute else 'none'},single,{stack},{stack},fp32,yes,yes,H200,1,1,1,steps,1,allocated", file=out)


def measure(name, method, rows, width, recompute, steps=11, warm=4):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with torch.device("cuda"):
        model = LlamaForCausalLM(LlamaConfig(**SHAPES[name], max_position_embeddings=65536, use_cache=False)).float()
    if method == "lora":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    times = []
    for _ in range(steps):
        ids = torch.randint(0, SHAPES[name]["vocab_size"], (rows, width), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    step = statistics.median(times[warm:])
    return dict(model=name, method=method, rows=rows, width=width, recompute=recompute, step_s=round(step, 5),
                tokens_per_s=round(rows * width / step, 1), allocated_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2))


def main():
    if sys.argv[1] == "forecast":
        return forecast(sys.argv[2])
    out, end = open(sys.argv[1], "a"), time.time() + float(sys.argv[2] if len(sys.argv) > 2 else 200)
    for case in CASES:
        if time.time() > end:
            break
        try:
            row = measure(*case)
        except Exception as error:  # the other cases go on
            row = dict(model=case[0], method=case[1], error=repr(error)[:300])
        gc.collect()
        print(json.dumps(row), flush=True)
        out.write(json.dumps(row) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
