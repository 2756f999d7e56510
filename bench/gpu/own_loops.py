# SPDX-License-Identifier: Apache-2.0
"""Training loops that people write themselves: a GPT-2 and a Llama in a few lines of PyTorch, as they are and compiled.

    python3 bench/gpu/own_loops.py forecast OUT.jsonl                  here: what `gpuhours plan` says of each, before
    python3 bench/gpu/own_loops.py OUT.jsonl FORECAST.jsonl [SECONDS]  there: seconds a step, peak allocated memory

fp32 weights under autocast to bf16, sdpa, fused AdamW, whole rows of random tokens, a vocabulary padded to a multiple of 64. `other` is
forecast for a loop as it is, `other-fused` for a compiled one.
"""
import json
import shlex
import statistics
import subprocess
import sys
import time

SHAPES = {  # layers, width, heads, key-value heads, hidden, vocabulary
    "gpt-2-124m": (12, 768, 12, 12, 3072, 50304),
    "gpt-2-355m": (24, 1024, 16, 16, 4096, 50304),
    "llama-3.2-1b": (16, 2048, 32, 8, 8192, 128256),
}
CASES = [(model, rows, width, compiled) for model, rows, width in (("gpt-2-124m", 32, 1024), ("gpt-2-124m", 8, 1024), ("gpt-2-355m", 16, 1024),
                                                                  ("llama-3.2-1b", 4, 2048)) for compiled in (False, True)]


def forecast(path):
    with open(path, "w") as out:
        for model, rows, width, compiled in CASES:
            stack = "other-fused" if compiled else "other"
            command = (f"build/gpuhours plan --tokens 2000M --search off --ledger off --quiet --json --model {model} --method full --gpu h200-sxm --gpus 1 "
                       f"--stack {stack} --context {width} --packing on --micro-batch {rows} --global-batch {rows} --parallel single --checkpointing none "
                       f"--precision bf16 --weights fp32 --attention sdpa")
            answer = json.loads(subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout)
            out.write(json.dumps(dict(model=model, rows=rows, width=width, compiled=compiled, stack=stack, command=command,
                                      tokens_per_second=answer["tokens_per_second"], allocated_gib=answer["memory"]["allocated_bytes"] / 2**30)) + "\n")


def measure(case, torch):
    from torch import nn
    from torch.nn import functional as F

    layers, width, heads, kv_heads, hidden, vocabulary = SHAPES[case["model"]]
    gpt = case["model"].startswith("gpt")
    size = width // heads

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return F.rms_norm(x, (width,), self.weight, 1e-5)

    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (nn.LayerNorm(width), nn.LayerNorm(width)) if gpt else (Norm(), Norm())
            self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * size, bias=gpt)
            self.o = nn.Linear(width, width, bias=gpt)
            self.up = nn.Linear(width, hidden if gpt else 2 * hidden, bias=gpt)
            self.down = nn.Linear(hidden, width, bias=gpt)

        def forward(self, x, cos, sin):
            rows, length, _ = x.shape
            q, k, v = self.qkv(self.first(x)).split((heads * size, kv_heads * size, kv_heads * size), -1)
            q, k, v = (t.view(rows, length, -1, size).transpose(1, 2) for t in (q, k, v))
            if not gpt:
                q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
            x = x + self.o(y.transpose(1, 2).reshape(rows, length, width))
            if gpt:
                return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))
            gate, up = self.up(self.second(x)).chunk(2, -1)
            return x + self.down(F.silu(gate) * up)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.positions = nn.Embedding(case["width"], width) if gpt else None
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(width) if gpt else Norm()
            angles = torch.outer(torch.arange(case["width"]).float(), 1 / 500000 ** (torch.arange(0, size, 2).float() / size)).repeat(1, 2)
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)

        def forward(self, ids, labels):
            x = self.tokens(ids)
            if gpt:
                x = x + self.positions.weight
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
            logits = F.linear(self.norm(x), self.tokens.weight)
            return F.cross_entropy(logits.view(-1, vocabulary), labels.view(-1))

    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Model()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    step = torch.compile(model) if case["compiled"] else model
    seconds = []
    for i in range(24):
        ids = torch.randint(0, 50000, (case["rows"], case["width"] + 1), device="cuda")
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = step(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return dict(seconds=statistics.median(seconds[8:]), allocated_gib=torch.cuda.max_memory_allocated() / 2**30)


def main():
    if sys.argv[1] == "forecast":
        return forecast(sys.argv[2])
    import gc

    import torch
    until = time.time() + float(sys.argv[3] if len(sys.argv) > 3 else 500)
    torch.set_float32_matmul_precision("high")
    with open(sys.argv[1], "w") as out:
        for line in open(sys.argv[2]):
            case = json.loads(line)
            if time.time() > until:
                break
            torch.cuda.reset_peak_memory_stats()
            result = measure(case, torch)
            rate = case["rows"] * case["width"] / result["seconds"]
            low, mid, high = (case["tokens_per_second"][p] for p in ("p10", "p50", "p90"))
            print(f"{case['model']:14} {case['rows']:3} x {case['width']} {'compiled' if case['compiled'] else 'as it is':8} {rate:9,.0f} tokens/s, forecast {mid:9,.0f} "
                  f"({low:,.0f} to {high:,.0f}): {rate / mid:.2f} {'inside' if low <= rate <= high else 'OUTSIDE'}; "
                  f"{result['allocated_gib']:.2f} GiB, forecast {case['allocated_gib']:.2f}", flush=True)
            out.write(json.dumps(case | result | dict(measured=rate)) + "\n")
            out.flush()
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()


main()
