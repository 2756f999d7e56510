# SPDX-License-Identifier: Apache-2.0
"""How long PyTorch's own operations take to make 16-bit weights of NF4 with nested scales, as torchao does for torchtune:
shift and mask to 64-bit indices, look both halves up, interleave, multiply by the scales. Eager and compiled, beside a copy
of the same memory's rate. Prints the bytes a weight that this is worth, and the memory at its peak; needs a GPU.

    python3 bench/gpu/nf4_in_torch.py
"""

import torch

BLOCK, GROUP = 64, 256
SHAPES = [(4096, 4096), (14336, 4096), (4096, 14336)]


def scales_of(codes, factors, mean):
    return (codes.view(-1, GROUP).to(torch.bfloat16) * factors.unsqueeze(-1)).flatten() + mean


def dequantize(packed, table, codes, factors, mean, shape):
    high = (packed >> 4).to(torch.long)
    low = (packed & 0b1111).to(torch.long)
    both = torch.cat([table.index_select(0, high).unsqueeze(-1), table.index_select(0, low).unsqueeze(-1)], dim=-1)
    scales = scales_of(codes, factors, mean)
    return (both.view(-1, BLOCK) * scales.unsqueeze(-1)).view(shape)


def seconds(run, times=30):
    for _ in range(5):
        run()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(times):
        run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / times


def main():
    torch.manual_seed(0)
    big = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    other = torch.empty_like(big)
    rate = 2 * big.numel() * 4 / seconds(lambda: other.copy_(big))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, copies {rate / 1e9:.0f} GB/s")
    table = torch.linspace(-1, 1, 16, device="cuda", dtype=torch.bfloat16)
    compiled = torch.compile(dequantize)
    for shape in SHAPES:
        count = shape[0] * shape[1]
        packed = torch.randint(0, 256, (count // 2,), dtype=torch.uint8, device="cuda")
        codes = torch.randint(-128, 128, (count // BLOCK,), dtype=torch.int8, device="cuda")
        factors = torch.rand(count // BLOCK // GROUP, dtype=torch.bfloat16, device="cuda")
        mean = torch.rand((), dtype=torch.bfloat16, device="cuda")
        for name, way in ("eager", dequantize), ("compiled", compiled):
            taken = seconds(lambda: way(packed, table, codes, factors, mean, shape))
            kernels = 0
            if name == "eager":
                with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                    way(packed, table, codes, factors, mean, shape)
                    torch.cuda.synchronize()
                kernels = sum(e.count for e in profile.key_averages())
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            way(packed, table, codes, factors, mean, shape)
            peak = torch.cuda.max_memory_allocated() - before
            print(f"{shape[0]} x {shape[1]} {name}: {taken * 1e6:.0f} us, {taken * rate / count:.1f} bytes a weight, {peak / count:.1f} at the peak"
                  + (f", {kernels} kernels" if kernels else ""))


main()
