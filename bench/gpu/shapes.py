# SPDX-License-Identifier: Apache-2.0
"""The models that the scripts beside this one run in PyTorch: real shapes, random weights.

    from shapes import SHAPES, build
"""
import torch
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

SHAPES = {
    "llama-3.1-8b": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                         intermediate_size=14336, vocab_size=128256, tie_word_embeddings=False),
    "llama-3.2-1b": dict(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                         head_dim=64, intermediate_size=8192, vocab_size=128256, tie_word_embeddings=True),
    "llama-3.2-3b": dict(hidden_size=3072, num_hidden_layers=28, num_attention_heads=24, num_key_value_heads=8,
                         head_dim=128, intermediate_size=8192, vocab_size=128256, tie_word_embeddings=True),
    "qwen2.5-0.5b": dict(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                         intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True),
    "llama-2-13b": dict(hidden_size=5120, num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=40,
                        intermediate_size=13824, vocab_size=32000, tie_word_embeddings=False),
    "mistral-7b-v0.3": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                            intermediate_size=14336, vocab_size=32768, tie_word_embeddings=False, sliding_window=None),
    "qwen2.5-7b": dict(hidden_size=3584, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
                       intermediate_size=18944, vocab_size=152064, tie_word_embeddings=False),
    "qwen2.5-32b": dict(hidden_size=5120, num_hidden_layers=64, num_attention_heads=40, num_key_value_heads=8,
                        intermediate_size=27648, vocab_size=152064, tie_word_embeddings=False),
    "qwen3-8b": dict(hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                     intermediate_size=12288, vocab_size=151936, tie_word_embeddings=False),
    "tiny": dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 intermediate_size=128, vocab_size=1000, tie_word_embeddings=True),
}

LLAMA = (LlamaConfig, LlamaForCausalLM)  # the smallest Qwen too, as it was when its figures were published
KINDS = {
    "mistral-7b-v0.3": (MistralConfig, MistralForCausalLM),
    "qwen2.5-7b": (Qwen2Config, Qwen2ForCausalLM),
    "qwen2.5-32b": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3-8b": (Qwen3Config, Qwen3ForCausalLM),
}


def config_of(shape, **more):
    """With sdpa attention; more changes or adds to it."""
    kind = KINDS.get(shape, LLAMA)[0]
    return kind(**{**SHAPES[shape], "max_position_embeddings": 16384, "rope_theta": 5e5, "rms_norm_eps": 1e-5,
                   "use_cache": False, "attn_implementation": "sdpa", **more})


def make(kind, config, device="cuda"):
    """A model of that class in bf16 on a GPU, in fp32 on the CPU."""
    torch.set_default_dtype(torch.bfloat16 if device == "cuda" else torch.float32)
    try:
        with torch.device(device):
            return kind(config)
    finally:
        torch.set_default_dtype(torch.float32)


def build(shape, lora=True, device="cuda"):
    """The whole model, with adapters of rank 16 on all linears as PEFT makes them, or as it is."""
    model = make(KINDS.get(shape, LLAMA)[1], config_of(shape), device)
    if lora:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    return model
