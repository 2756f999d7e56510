# SPDX-License-Identifier: Apache-2.0
"""What fp8 gains in a linear of PyTorch, with all that it costs: scales, casts, transposed copies, and products.

    python3 bench/gpu/fp8_linear.py [OUT.jsonl [SECONDS]]

Forward and both gradients of a linear in bf16, and in fp8 with dynamic scales, one for each tensor or one for each row, as torchao and
TransformerEngine make them: e4m3 for inputs and weights, e5m2 for gradients (rowwise e4m3), compiled. One JSON line for each shape:
microseconds of bf16 and of both kinds of fp8, and of the three products alone.
"""
import json
import sys
import time

import torch

SHAPES = [(tokens, k, n) for tokens in (4096, 16384) for k, n in ((1600, 6400), (4096, 4096), (4096, 14336), (14336, 4096), (8192, 28672))]
E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2


def quantised(x, kind, axis):
    """Codes of x, and its scale: one, or one for each row along an axis."""
    size = x.abs().amax(dim=axis, keepdim=True) if axis is not None else x.abs().amax()
    scale = (size.float().clamp(min=1e-12) / torch.finfo(kind).max)
    return (x.float() / scale).to(kind), scale


def product(a, scale_a, b, scale_b):
    """a × b, where b's columns lie one after another."""
    if scale_a.ndim == 0:
        scale_a, scale_b = scale_a.reshape(1, 1), scale_b.reshape(1, 1)
    return torch._scaled_mm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=True)


def step(x, w, dy, rowwise):
    grad = E4 if rowwise else E5
    row, column = (1, 0) if rowwise else (None, None)
    x8, sx = quantised(x, E4, row)
    w8, sw = quantised(w, E4, row)
    y = product(x8, sx, w8.t(), sw.t() if rowwise else sw)  # [tokens, k] × [k, n]
    d8, sd = quantised(dy, grad, row)
    wt8, swt = quantised(w, E4, column)
    dx = product(d8, sd, wt8.t().contiguous().t(), swt)  # [tokens, n] × [n, k]
    dt8, sdt = quantised(dy, grad, column)
    xt8, sxt = quantised(x, E4, column)
    dw = product(dt8.t().contiguous(), sdt.t() if rowwise else sdt, xt8.t().contiguous().t(), sxt)  # [n, tokens] × [tokens, k]
    return y, dx, dw


def plain(x, w, dy):
    return x @ w.t(), dy @ w, dy.t() @ x


def microseconds(run, seconds=0.3):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(5):
            run()
        count += 5
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / count * 1e6


def products_alone(tokens, k, n, rowwise):
    def pair(m, depth, width, kind):
        a = torch.randn(m, depth, device="cuda").to(kind)
        b = torch.randn(width, depth, device="cuda").to(E4).t()
        one = torch.ones((), device="cuda")
        sa, sb = (torch.ones(m, 1, device="cuda"), torch.ones(1, width, device="cuda")) if rowwise else (one, one)
        return lambda: product(a, sa, b, sb)

    grad = E4 if rowwise else E5
    runs = pair(tokens, k, n, E4), pair(tokens, n, k, grad), pair(n, tokens, k, grad)
    return microseconds(lambda: [run() for run in runs])


def main():
    out = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    end = time.time() + float(sys.argv[2] if len(sys.argv) > 2 else 300)
    for tokens, k, n in SHAPES:
        if time.time() > end:
            break
        torch._dynamo.reset()
        x, dy = (torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16) for width in (k, n))
        w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * 0.02
        row = dict(bench="fp8_linear", tokens=tokens, k=k, n=n, bf16_us=round(microseconds(lambda: plain(x, w, dy)), 1))
        for name, rowwise in (("tensor", False), ("row", True)):
            compiled = torch.compile(step, dynamic=False)
            try:
                row[name + "_us"] = round(microseconds(lambda: compiled(x, w, dy, rowwise)), 1)
                row[name + "_products_us"] = round(products_alone(tokens, k, n, rowwise), 1)
            except Exception as error:  # the other kind goes on
                row[name + "_error"] = repr(error)[:200]
        row.update(torch=torch.__version__, gpu=torch.cuda.get_device_name())
        print(json.dumps(row), flush=True)
        if out:
            out.write(json.dumps(row) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
