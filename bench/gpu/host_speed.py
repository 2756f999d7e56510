# SPDX-License-Identifier: Apache-2.0
"""host_speed.py: how fast this machine's host is where steps of small batches wait for it. Milliseconds and microseconds, the least and the median of seven."""
import statistics
import time

import torch


def least_and_median(function, scale):
    taken = sorted(scale * function() for _ in range(7))
    return f"{taken[0]:.2f} {statistics.median(taken):.2f}"


def python_loop():
    begun, seen = time.perf_counter(), {}
    for i in range(300000):
        seen[i & 1023] = seen.get(i & 511, 0) + len(str(i))
    return time.perf_counter() - begun


def launches(count=20000):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(count):
        small.add_(1)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / count


def backward(count=3000):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(count):
        (weight * weight).sum().backward()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / count


small, weight = torch.randn(8, 8, device="cuda"), torch.randn(8, 8, device="cuda", requires_grad=True)
launches(100), backward(100)
print("a loop of Python, ms:", least_and_median(python_loop, 1e3))
print("one launch, us:", least_and_median(launches, 1e6))
print("three operations and their backward passes, us:", least_and_median(backward, 1e6))
