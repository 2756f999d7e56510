# SPDX-License-Identifier: Apache-2.0
"""Steps of transformers, with PEFT for LoRA, on families of models that no row of data/runs.csv had: forecasts held against what they
were not made with.

    python3 bench/gpu/families_steps.py forecast OUT.csv       rows for gpuhours validate, with tokens/s of 1: the forecasts, before
    python3 bench/gpu/families_steps.py OUT.jsonl [SECONDS [FIRST]]    there, from that case on: median step, tokens/s, peak allocated memory

Random weights, bf16, adapters of rank 16 on all linears as PEFT makes them, fused AdamW, no autocast, attention as transformers chooses.
"""
import gc
import json
import statistics
import sys
import time

LLAMA_8B = dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336,
                vocab_size=128256, tie_word_embeddings=False, attn_implementation="eager")
# model, method, rows, width, recomputation, class, configuration
CASES = [
    ("gemma-2-9b", "lora", 2, 2048, False, "Gemma2", dict(hidden_size=3584, num_hidden_layers=42, num_attention_heads=16,
     num_key_value_heads=8, head_dim=256, intermediate_size=14336, vocab_size=256000)),
    ("gemma-3-4b", "lora", 4, 2048, False, "Gemma3", dict(hidden_size=2560, num_hidden_layers=34, num_attention_heads=8,
     num_key_value_heads=4, head_dim=256, intermediate_size=10240, vocab_size=262208, sliding_window=1024)),
    ("gemma-3-12b", "lora", 1, 4096, True, "Gemma3", dict(hidden_size=3840, num_hidden_layers=48, num_attention_heads=16,
     num_key_value_heads=8, head_dim=256, intermediate_size=15360, vocab_size=262208, sliding_window=1024)),
    ("phi-4-14b", "lora", 2, 2048, False, "Phi3", dict(hidden_size=5120, num_hidden_layers=40, num_attention_heads=40,
     num_key_value_heads=10, intermediate_size=17920, vocab_size=100352, pad_token_id=0)),
    ("phi-3-mini-3.8b", "full", 2, 2048, False, "Phi3", dict(hidden_size=3072, num_hidden_layers=32, num_attention_heads=32,
     num_key_value_heads=32, intermediate_size=8192, vocab_size=32064, pad_token_id=0, sliding_window=2048)),
    ("olmo-2-7b", "lora", 2, 4096, False, "Olmo2", dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
     num_key_value_heads=32, intermediate_size=11008, vocab_size=100352)),
    ("granite-3-8b", "lora", 4, 1024, False, "Granite", dict(hidden_size=4096, num_hidden_layers=40, num_attention_heads=32,
     num_key_value_heads=8, intermediate_size=12800, vocab_size=49155, tie_word_embeddings=True)),
    ("smollm2-1.7b", "full", 8, 1024, False, "Llama", dict(hidden_size=2048, num_hidden_layers=24, num_attention_heads=32,
     num_key_value_heads=32, intermediate_size=8192, vocab_size=49152, tie_word_embeddings=True)),
    ("glm-4-9b", "lora", 2, 2048, False, "Glm", dict(hidden_size=4096, num_hidden_layers=40, num_attention_heads=32,
     num_key_value_heads=2, head_dim=128, intermediate_size=13696, vocab_size=151552, attention_bias=True, pad_token_id=0)),
    ("starcoder2-7b", "lora", 2, 4096, False, "Starcoder2", dict(hidden_size=4608, num_hidden_layers=32, num_attention_heads=36,
     num_key_value_heads=4, intermediate_size=18432, vocab_size=49152, sliding_window=4096)),
    ("qwen2.5-14b", "lora", 2, 2048, False, "Qwen2", dict(hidden_size=5120, num_hidden_layers=48, num_attention_heads=40,
     num_key_value_heads=8, intermediate_size=13824, vocab_size=152064, tie_word_embeddings=False)),
    ("qwen3-4b", "full", 4, 2048, False, "Qwen3", dict(hidden_size=2560, num_hidden_layers=36, num_attention_heads=32,
     num_key_value_heads=8, head_dim=128, intermediate_size=9728, vocab_size=151936, tie_word_embeddings=True)),
    ("mistral-nemo-12b", "lora", 1, 8192, True, "Mistral", dict(hidden_size=5120, num_hidden_layers=40, num_attention_heads=32,
     num_key_value_heads=8, head_dim=128, intermediate_size=14336, vocab_size=131072, sliding_window=None)),
    ("smollm3-3b", "full", 2, 4096, False, "SmolLM3", dict(hidden_size=2048, num_hidden_layers=36, num_attention_heads=16,
     num_key_value_heads=4, intermediate_size=11008, vocab_size=128256, tie_word_embeddings=True, pad_token_id=0)),
    # long rows
    ("qwen3-14b", "lora", 1, 16384, True, "Qwen3", dict(hidden_size=5120, num_hidden_layers=40, num_attention_heads=40,
     num_key_value_heads=8, head_dim=128, intermediate_size=17408, vocab_size=151936, tie_word_embeddings=False)),
    ("smollm2-1.7b", "full", 1, 32768, True, "Llama", dict(hidden_size=2048, num_hidden_layers=24, num_attention_heads=32,
     num_key_value_heads=32, intermediate_size=8192, vocab_size=49152, tie_word_embeddings=True)),
    ("gemma-2-9b", "lora", 1, 8192, True, "Gemma2", dict(hidden_size=3584, num_hidden_layers=42, num_attention_heads=16,
     num_key_value_heads=8, head_dim=256, intermediate_size=14336, vocab_size=256000)),
    ("phi-4-14b", "lora", 1, 16384, True, "Phi3", dict(hidden_size=5120, num_hidden_layers=40, num_attention_heads=40,
     num_key_value_heads=10, intermediate_size=17920, vocab_size=100352, pad_token_id=0)),
    ("mistral-7b-v0.1", "lora", 2, 8192, True, "Mistral", dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
     num_key_value_heads=8, intermediate_size=14336, vocab_size=32000, sliding_window=4096)),
    ("olmo-2-7b", "full", 1, 32768, True, "Olmo2", dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
     num_key_value_heads=32, intermediate_size=11008, vocab_size=100352)),
    # eager attention
    ("llama-3.1-8b", "lora", 8, 512, False, "Llama", LLAMA_8B),
    ("llama-3.1-8b", "lora", 4, 1024, False, "Llama", LLAMA_8B),
    ("llama-3.1-8b", "lora", 2, 2048, False, "Llama", LLAMA_8B),
    ("llama-3.1-8b", "lora", 2, 4096, True, "Llama", LLAMA_8B),
    ("gemma-2-9b", "lora", 2, 2048, True, "Gemma2", dict(hidden_size=3584, num_hidden_layers=42, num_attention_heads=16,
     num_key_value_heads=8, head_dim=256, intermediate_size=14336, vocab_size=256000, attn_implementation="eager")),
    ("qwen3-4b", "full", 4, 1024, False, "Qwen3", dict(hidden_size=2560, num_hidden_layers=36, num_attention_heads=32,
     num_key_value_heads=8, head_dim=128, intermediate_size=9728, vocab_size=151936, tie_word_embeddings=True,
     attn_implementation="eager")),
    ("smollm2-1.7b", "full", 8, 1024, False, "Llama", dict(hidden_size=2048, num_hidden_layers=24, num_attention_heads=32,
     num_key_value_heads=32, intermediate_size=8192, vocab_size=49152, tie_word_embeddings=True, attn_implementation="eager")),
]
CONFIGS = {"Gemma3": "Gemma3TextConfig"}
COLUMNS = ("id,source,model,method,lora_rank,lora_targets,precision,seq_len,packed,micro_batch,grad_accum,checkpointing,parallelism,"
           "framework,stack,attention,adapters,bare_loop,gpu,n_gpus,tokens_per_s_total,tokens_per_s_per_gpu,rate_covers")


def forecast(path):
    with open(path, "w") as out:
        print(COLUMNS, file=out)
        for i, (model, method, rows, width, recompute, _, shape) in enumerate(CASES):
            lora = method == "lora"
            stack = "hf-peft" if lora else "hf"
            print(f"GPH-A{i:02},families_steps.py,{model},{method},{16 if lora else ''},{'all-linear' if lora else ''},bf16,{width},yes,"
                  f"{rows},1,{'full' if recompute else 'none'},single,{stack},{stack},{shape.get('attn_implementation', '')},{'plain' if lora else ''},yes,H200,1,1,1,steps", file=out)


def measure(model_name, method, rows, width, recompute, kind, shape, steps=11, warm=4):
    import torch
    import transformers

    config = getattr(transformers, CONFIGS.get(kind, kind + "Config"))(
        **{**shape, "max_position_embeddings": 65536, "use_cache": False})
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = getattr(transformers, kind + "ForCausalLM")(config)
    torch.set_default_dtype(torch.float32)
    attention = model.config._attn_implementation
    if method == "lora":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    times = []
    for _ in range(steps):
        ids = torch.randint(0, shape["vocab_size"], (rows, width), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    step = statistics.median(times[warm:])
    return dict(model=model_name, method=method, rows=rows, width=width, recompute=recompute, attention=attention,
                step_s=round(step, 5), tokens_per_s=round(rows * width / step, 1),
                parameters=sum(p.numel() for p in model.parameters()),
                allocated_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2))


def main():
    if sys.argv[1] == "forecast":
        return forecast(sys.argv[2])
    import torch

    out, end = open(sys.argv[1], "a"), time.time() + float(sys.argv[2] if len(sys.argv) > 2 else 280)
    for case in CASES[int(sys.argv[3]) if len(sys.argv) > 3 else 0:]:
        if time.time() > end:
            break
        try:
            row = measure(*case)
        except Exception as error:  # the other cases go on
            torch.set_default_dtype(torch.float32)
            row = dict(model=case[0], error=repr(error)[:300])
        gc.collect()
        print(json.dumps(row), flush=True)
        out.write(json.dumps(row) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
