# SPDX-License-Identifier: Apache-2.0
"""Bytes that eager attention has for each score: kept by a layer for its backward pass, and more at the peak of that pass.

    python3 bench/gpu/eager_scores.py [OUT.jsonl]

About 15 s. Four layers of the 1B shape, one row, frozen; peaks beside those of sdpa, which has no scores in 16 bits. In fp32 it has:
its kernels do not take heads that share keys, and the difference is 0. Forecast by reading transformers' eager_attention_forward: 6 bytes
kept in 16 bits, 4 in fp32, and in backward 4 and 8 more (measured: 10 and 12; bench/results/h200.md).
"""
import contextlib
import json
import sys

import torch
from transformers import LlamaModel

from shapes import config_of, make

LAYERS, HEADS = 4, 32


def bytes_of(model, embedded, autocast):
    """Allocated by the forward pass, and at the peak of backward above what was there before both."""
    for _ in range(2):
        before = torch.cuda.memory_allocated()
        with torch.autocast("cuda", torch.bfloat16) if autocast else contextlib.nullcontext():
            out = model(inputs_embeds=embedded).last_hidden_state.float().sum()
        kept = torch.cuda.memory_allocated() - before
        torch.cuda.reset_peak_memory_stats()
        out.backward()
        peak = torch.cuda.max_memory_allocated() - before
        del out
        embedded.grad = None
    return kept, peak


def measure(dtype, autocast, recomputes, width):
    found = {}
    for kernel in ("sdpa", "eager"):
        config = config_of("llama-3.2-1b", num_hidden_layers=LAYERS, vocab_size=1000, attn_implementation=kernel)
        model = make(LlamaModel, config).requires_grad_(False).to(dtype).train()
        if recomputes:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        embedded = torch.randn(1, width, config.hidden_size, device="cuda", dtype=dtype, requires_grad=True)
        found[kernel] = bytes_of(model, embedded, autocast)
    scores = HEADS * width * width
    kept, peak = (found["eager"][i] - found["sdpa"][i] for i in (0, 1))
    layers = 1 if recomputes else LAYERS
    return dict(bench="eager_scores", dtype=str(dtype), autocast=autocast, recomputes=recomputes, width=width,
                kept_per_score=round(kept / scores / layers, 3), peak_per_score=round(peak / scores, 3),
                sdpa_gib=[round(b / 2 ** 30, 3) for b in found["sdpa"]], eager_gib=[round(b / 2 ** 30, 3) for b in found["eager"]],
                torch=torch.__version__, gpu=torch.cuda.get_device_name())


def main():
    out = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    for dtype, autocast in ((torch.bfloat16, False), (torch.float32, True), (torch.float32, False)):
        for recomputes in (False, True):
            for width in (2048, 4096):
                row = measure(dtype, autocast, recomputes, width)
                print(json.dumps(row), flush=True)
                if out:
                    out.write(json.dumps(row) + "\n")


main()
