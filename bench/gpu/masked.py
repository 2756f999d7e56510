# SPDX-License-Identifier: Apache-2.0
"""What an attention mask costs in transformers: layers forward and backward, with padding hidden by a mask and without.

    python3 bench/gpu/masked.py [OUT.jsonl]

Padded batches come with a mask, and sdpa then takes another kernel than the causal one (and keys and values are repeated for
each head). 16,384 tokens in rows of each width, the last row one token short so that the mask is not left out; a few layers
of the real shapes, bf16; medians. One JSON line per shape and width: milliseconds a layer.
"""
import json
import statistics
import sys

import torch
from transformers import LlamaModel

from shapes import config_of, make

TOKENS, LAYERS = 16384, 4
SHAPES = ("llama-3.2-1b", "llama-3.1-8b")


def milliseconds(model, inputs):
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        model(**inputs).last_hidden_state.float().sum().backward()
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
            row = dict(bench="masked", shape=shape, tokens=TOKENS, width=width, plain_ms=round(plain, 4),
                       masked_ms=round(masked, 4), torch=torch.__version__, gpu=torch.cuda.get_device_name())
            print(json.dumps(row), flush=True)
            if out:
                out.write(json.dumps(row) + "\n")


main()
