# SPDX-License-Identifier: Apache-2.0
"""What a layer of transformers keeps for its backward pass, tensor by tensor: against the plan's bytes of activations.

    python3 bench/gpu/saved_tensors.py [MODEL…]     models of families_steps.py; with the method that they have there

Two layers less one: every storage that autograd keeps and that is no weight, with its type and elements over the tokens.
"""
import collections
import sys

import torch
import transformers
from families_steps import CASES, CONFIGS

TOKENS = 2048


def kept(kind, shape, method, layers):
    config = getattr(transformers, CONFIGS.get(kind, kind + "Config"))(
        **{**shape, "num_hidden_layers": layers, "max_position_embeddings": 16384, "use_cache": False})
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = getattr(transformers, kind + "ForCausalLM")(config)
    torch.set_default_dtype(torch.float32)
    if method == "lora":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    found, holders = {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = (str(tensor.dtype)[6:], storage.nbytes() / tensor.element_size() / TOKENS, storage.nbytes())
            holders.append(tensor)
        return tensor

    ids = torch.randint(0, shape["vocab_size"], (1, TOKENS), device="cuda")
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        model(input_ids=ids, labels=ids).loss.backward()
    return collections.Counter((dtype, round(elements, 2)) for dtype, elements, _ in found.values()), sum(b for *_, b in found.values())


for name, method, _, _, _, kind, shape in CASES:
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    one, one_bytes = kept(kind, shape, method, 1)
    two, two_bytes = kept(kind, shape, method, 2)
    print(f"{name} {method}: {(two_bytes - one_bytes) / TOKENS:,.0f} bytes a token and layer")
    for (dtype, elements), count in sorted((two - one).items(), key=lambda item: -item[0][1]):
        print(f"    {count} × {elements:g} {dtype}")
