# SPDX-License-Identifier: Apache-2.0
"""What a mask and eager attention cost in transformers: layers forward and backward, with padding hidden by a mask, with scores that
are written to memory, and without both.

    python3 bench/gpu/masked.py [OUT.jsonl]

Padded batches come with a mask, and sdpa then takes another kernel than the causal one (and keys and values are repeated for
each head). Eager attention has a mask always. 16,384 tokens in rows of each width, the last row one token short so that the mask is not left out; a few layers
of the real shapes, bf16; medians. One JSON line per shape and width: milliseconds a layer, of both passes
and of the forward one alone.
"""
import json
import statistics
import sys

import torch
from transformers import LlamaModel

from shapes import config_of, make

TOKENS, LAYERS = 16384, 4
SHAPES = ("llama-3.2-1b", "llama-3.1-8b")


def milliseconds(model, inputs, backward=True):
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        total = model(**inputs).last_hidden_state.float().sum()
        if backward:
            total.backward()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[2:])


def main():
    out = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    for shape in SHAPES:
        config = config_of(shape, num_hidden_layers=LAYERS, vocab_size=1000)
        model = make(LlamaModel, config).requires_grad_(False)
        for width in (256, 512, 1024, 2048, 4096):
            embedded = torch.randn(TOKENS // width, width, config.hidden_size, device="cuda", dtype=torch.bfloat16)
            embedded.requires_grad_(True)
            mask = torch.ones(TOKENS // width, width, dtype=torch.long, device="cuda")
            mask[-1, -1] = 0
            plain = milliseconds(model, dict(inputs_embeds=embedded)) / LAYERS
            masked = milliseconds(model, dict(inputs_embeds=embedded, attention_mask=mask)) / LAYERS
            forward = milliseconds(model, dict(inputs_embeds=embedded), False) / LAYERS
            model.set_attn_implementation("eager")
            eager = milliseconds(model, dict(inputs_embeds=embedded)) / LAYERS
            eager_forward = milliseconds(model, dict(inputs_embeds=embedded), False) / LAYERS
            model.set_attn_implementation("sdpa")
            row = dict(bench="masked", shape=shape, tokens=TOKENS, width=width, plain_ms=round(plain, 4),
                       masked_ms=round(masked, 4), eager_ms=round(eager, 4), plain_forward_ms=round(forward, 4),
                       eager_forward_ms=round(eager_forward, 4), torch=torch.__version__, gpu=torch.cuda.get_device_name())
            print(json.dumps(row), flush=True)
            if out:
                out.write(json.dumps(row) + "\n")


main()
