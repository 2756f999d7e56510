# SPDX-License-Identifier: Apache-2.0
"""Rates of PyTorch's causal attention by kernel, size of a head and length of the rows: what the plan's curve is held against.

    python3 bench/gpu/attention_lengths.py OUT.jsonl [SECONDS]

bf16, 32 heads and 8 of keys and values (copied for each head, as transformers does), 16,384 tokens a call or one row. TFLOP/s count
half the square, backward 2.5 times forward. Each is run for 0.3 s, so that the clock settles, before as much is timed.
"""
import json
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS, HEADS = 16384, 32
KERNELS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash2": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def seconds_of(call):
    """The mean of calls for 0.3 s, after as many to warm up."""
    for timed in (False, True):
        torch.cuda.synchronize()
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < 0.3 or count < 2:
            for _ in range(2):
                call()
            torch.cuda.synchronize()
            count += 2
        each = (time.perf_counter() - began) / count
    return each


def rates(kernel, head, length):
    rows = max(1, TOKENS // length)
    q, k, v, grad = (torch.randn(rows, HEADS, length, head, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    flops = 2 * rows * HEADS * head * length**2

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    with sdpa_kernel(KERNELS[kernel]):
        out = forward()
        ahead = seconds_of(forward)
        back = seconds_of(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))
    return dict(kernel=kernel, head=head, length=length, rows=rows, forward_ms=round(ahead * 1e3, 3), backward_ms=round(back * 1e3, 3),
                forward_tflops=round(flops / ahead / 1e12, 1), backward_tflops=round(2.5 * flops / back / 1e12, 1))


def main():
    out, end = open(sys.argv[1], "a"), time.time() + float(sys.argv[2] if len(sys.argv) > 2 else 120)
    for kernel in KERNELS:
        for head in (128, 64):
            for length in (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072):
                slow = kernel == "efficient" and length > 8192 or head == 64 and length > 32768
                if slow or time.time() > end:
                    continue
                try:
                    row = rates(kernel, head, length)
                except RuntimeError as error:
                    row = dict(kernel=kernel, head=head, length=length, error=str(error)[:100])
                print(json.dumps(row), flush=True)
                out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
