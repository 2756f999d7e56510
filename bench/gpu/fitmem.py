# SPDX-License-Identifier: Apache-2.0
"""Measures two things that the forecast has only from publications: products of fp32 adapters by rank, and what FSDP
holds of checkpointed inputs when layers are frozen.

    python3 bench/gpu/fitmem.py OUT.jsonl

About 40 s. FSDP runs alone, so that nothing is sharded; the hook by which it frees a frozen layer is the same. Expected:
0.26, 0.51 and 0.67 of the fp32 rate at ranks of 16, 64 and 256; and with reentrant recomputation one more copy of all
layers' inputs at the end of the backward pass than without (16 layers x 16,384 tokens x 2,048 x 2 bytes = 1.0 GiB).
"""
import functools
import json
import os
import sys
import time

import torch

from shapes import SHAPES, build

TOKENS, WIDTH, INNER = 8192, 4096, 14336


def product(rows, depth, columns):
    a, b = torch.randn(rows, depth, device="cuda"), torch.randn(depth, columns, device="cuda")
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        a @ b
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / 20
    return dict(what="fp32 product", rows=rows, depth=depth, columns=columns, tflops=round(2e-12 * rows * depth * columns / seconds, 2))


def peak_under_fsdp(reentrant):
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    def wraps(module):
        weight = getattr(module, "weight", None)
        leaf = not list(module.children()) and weight is not None and weight.requires_grad
        return leaf or isinstance(module, LlamaDecoderLayer)

    model = build("llama-3.2-1b").to(torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    model.enable_input_require_grads()
    policy = functools.partial(lambda_auto_wrap_policy, lambda_fn=wraps)
    model = FullyShardedDataParallel(model.train(), auto_wrap_policy=policy, device_id=0, use_orig_params=False)
    rows, width = 4, 4096
    ids = torch.randint(0, SHAPES["llama-3.2-1b"]["vocab_size"], (rows, width), device="cuda")
    for _ in range(2):
        loss = model(input_ids=ids, logits_to_keep=1).logits.float().square().mean()  # no logits at the peak
        torch.cuda.reset_peak_memory_stats()
        loss.backward()
        peak = torch.cuda.max_memory_allocated()
        model.zero_grad(set_to_none=True)
    return dict(what="FSDP, frozen layers", reentrant=reentrant, rows=rows, width=width, peak_gib=round(peak / 2 ** 30, 3),
                torch=torch.__version__)


def main():
    out = open(sys.argv[1], "a")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    torch.distributed.init_process_group("nccl")
    work = [lambda r=r: product(TOKENS, WIDTH, r) for r in (16, 64, 256)]
    work += [lambda r=r: product(TOKENS, r, INNER) for r in (16, 64, 256)]
    work += [lambda: peak_under_fsdp(False), lambda: peak_under_fsdp(True)]
    for do in work:
        try:
            row = do()
        except Exception as error:
            row = dict(error=repr(error)[:300])
        torch.cuda.empty_cache()
        print(json.dumps(row), flush=True)
        out.write(json.dumps(row) + "\n")
    torch.distributed.destroy_process_group()


main()
