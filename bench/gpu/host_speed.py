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


def adapted_layer(steps=15):
    """A layer of PEFT's, forward and backward, of a 1B Llama with adapters on all linears and 32 tokens: the GPU waits."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM
    shape = LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, vocab_size=32000)
    with torch.device("cuda"):
        model = LlamaForCausalLM(shape).to(torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear"))
    tokens = torch.randint(0, 32000, (1, 32), device="cuda")

    def step():
        begun = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) / 16

    step(), step()
    taken = sorted(1e3 * step() for _ in range(steps))
    return f"{taken[0]:.2f} {statistics.median(taken):.2f}"


small, weight = torch.randn(8, 8, device="cuda"), torch.randn(8, 8, device="cuda", requires_grad=True)
launches(100), backward(100)
print("a loop of Python, ms:", least_and_median(python_loop, 1e3))
print("one launch, us:", least_and_median(launches, 1e6))
print("three operations and their backward passes, us:", least_and_median(backward, 1e6))
print("a layer of PEFT, ms:", adapted_layer())
