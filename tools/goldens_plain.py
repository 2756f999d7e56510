#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""goldens_plain.py FOLDER: the fixtures of tools/goldens.py for mixtures of experts, without transformers.

Needs only torch, 1.13 or later. The two models are written out below; the weights are drawn as goldens.py
draws them. What vouches for it are the losses that transformers 5.17 and PEFT 0.21 gave for the same weights:
the script fails unless every loss is within 2e-6 of theirs. Gradients are those of autograd, computed in fp64 from
weights that are fp32.
"""

import json
import math
import os
import sys
import types

import torch

# transformers and PEFT are not needed: goldens.py is read for its weights, documents and losses.
for name in ("peft", "transformers", "safetensors", "safetensors.torch"):
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["safetensors.torch"].save_file = None
sys.modules["transformers"].__getattr__ = lambda name: None
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import goldens  # noqa: E402

LOSSES = {
    "qwen3_moe": dict(
        losses=4.347777366638184,
        auxiliary_losses=5.620355606079102,
        experts_losses=4.194307327270508,
        lora_losses=3.8025400638580322,
    ),
    "mixtral": dict(
        losses=3.761385679244995,
        auxiliary_losses=4.82049560546875,
        experts_losses=4.350803852081299,
        lora_losses=4.407553195953369,
    ),
}
KEYS = {"qwen3_moe": "num_experts", "mixtral": "num_local_experts"}


def norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def rotate(x, theta):
    """x is (heads, tokens, size); pairs are i and i + size / 2."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[1])[:, None] * theta ** (-torch.arange(half, dtype=x.dtype) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class Mixture:
    """A decoder whose layers all have experts, under the names that transformers 5 gives its parameters."""

    def __init__(self, kind):
        shape = {**goldens.SHAPE, **goldens.KINDS[kind][1]}
        self.kind, self.config = kind, types.SimpleNamespace(**shape)
        self.experts = shape[KEYS[kind]]
        width, size, c = shape["hidden_size"], shape["head_dim"], self.config
        inner = shape.get("moe_intermediate_size", shape["intermediate_size"])
        self.parameters = {}
        self.add("model.embed_tokens.weight", c.vocab_size, width)
        self.add("lm_head.weight", c.vocab_size, width)
        self.add("model.norm.weight", width)
        for i in range(c.num_hidden_layers):
            at = f"model.layers.{i}."
            self.add(at + "input_layernorm.weight", width)
            self.add(at + "post_attention_layernorm.weight", width)
            for name, heads in ("q", c.num_attention_heads), ("k", c.num_key_value_heads), ("v", c.num_key_value_heads):
                self.add(at + f"self_attn.{name}_proj.weight", heads * size, width)
            self.add(at + "self_attn.o_proj.weight", width, c.num_attention_heads * size)
            if kind == "qwen3_moe":
                self.add(at + "self_attn.q_norm.weight", size)
                self.add(at + "self_attn.k_norm.weight", size)
            self.add(at + "mlp.gate.weight", self.experts, width)
            self.add(at + "mlp.experts.gate_up_proj", self.experts, 2 * inner, width)
            self.add(at + "mlp.experts.down_proj", self.experts, width, inner)
        self.seen = []

    def add(self, name, *shape):
        self.parameters[name] = torch.zeros(shape, requires_grad=True)

    def named_parameters(self):
        return self.parameters.items()

    def attend(self, p, at, x):
        c, size = self.config, self.config.head_dim
        q, k, v = (
            (x @ p[at + f"{n}_proj.weight"].T).view(x.shape[0], -1, size).transpose(0, 1) for n in "qkv"
        )
        if at + "q_norm.weight" in p:
            q, k = (norm(y, p[at + n], c.rms_norm_eps) for y, n in ((q, "q_norm.weight"), (k, "k_norm.weight")))
        q, k = rotate(q, c.rope_theta), rotate(k, c.rope_theta)
        share = c.num_attention_heads // c.num_key_value_heads
        k, v = k.repeat_interleave(share, 0), v.repeat_interleave(share, 0)
        scores = q @ k.transpose(1, 2) / math.sqrt(size)
        hidden = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
        return mixed.transpose(0, 1).reshape(x.shape[0], -1) @ p[at + "o_proj.weight"].T

    def mix(self, p, at, x):
        logits = x @ p[at + "gate.weight"].T
        self.seen.append(logits)
        weights, chosen = logits.softmax(-1).topk(self.config.num_experts_per_tok)
        weights = weights / weights.sum(-1, keepdim=True)
        out = []
        for row, ws, es in zip(x, weights, chosen):
            total = 0
            for w, e in zip(ws, es):
                gate, up = (p[at + "experts.gate_up_proj"][e] @ row).chunk(2)
                total = total + w * (p[at + "experts.down_proj"][e] @ (torch.nn.functional.silu(gate) * up))
            out.append(total)
        return torch.stack(out)

    def run(self, p, ids):
        c, x = self.config, p["model.embed_tokens.weight"][ids]
        for i in range(c.num_hidden_layers):
            at = f"model.layers.{i}."
            x = x + self.attend(p, at + "self_attn.", norm(x, p[at + "input_layernorm.weight"], c.rms_norm_eps))
            x = x + self.mix(p, at + "mlp.", norm(x, p[at + "post_attention_layernorm.weight"], c.rms_norm_eps))
        return norm(x, p["model.norm.weight"], c.rms_norm_eps) @ p["lm_head.weight"].T

    def __call__(self, input_ids):
        return types.SimpleNamespace(logits=self.run(self.parameters, input_ids[0])[None])


def balance(model):
    """E · Σ share of rows · mean probability, over the routers of all layers and documents."""
    every = torch.cat(model.seen)
    chosen = every.softmax(-1).topk(model.config.num_experts_per_tok).indices
    share = torch.nn.functional.one_hot(chosen, model.experts).double().mean(0)
    return (share * every.softmax(-1).mean(0)).sum() * model.experts


def with_auxiliary_loss(model, docs):
    model.seen = []
    logits, loss = goldens.passes(model, docs)
    return logits, loss + model.config.router_aux_loss_coef * balance(model)


def widen(parameters):
    for p in parameters.values():
        p.data = p.data.double()


class Adapters(goldens.ExpertAdapters):
    def __init__(self, kind, model):
        super().__init__(kind, model)
        widen(self.adapters)

    def __call__(self, input_ids):
        return types.SimpleNamespace(logits=self.model.run(self.weights_with_adapters(), input_ids[0])[None])


class AttentionAdapters(Adapters):
    """LoRA on attention alone, drawn in the order in which goldens.py fills PEFT's."""

    def __init__(self, kind, model):
        super().__init__(kind, model)
        self.adapters = {n: p for n, p in self.adapters.items() if "self_attn" in n}
        generator = torch.Generator().manual_seed(2)
        for _, p in sorted(self.adapters.items()):
            p.data.copy_(0.3 * torch.randn(p.shape, generator=generator))


def write_safetensors(tensors, path):
    header, at = {}, 0
    for name, t in sorted(tensors.items()):
        header[name] = dict(dtype="F32", shape=list(t.shape), data_offsets=[at, at + 4 * t.numel()])
        at += 4 * t.numel()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, t in sorted(tensors.items()):
            out.write(t.float().contiguous().numpy().tobytes())


def make(kind, folder):
    model, docs, tensors, losses = Mixture(kind), goldens.documents(), {}, {}
    goldens.fill(kind, model, 1)
    widen(model.parameters)
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    goldens.store(kind, tensors, "weights/", start.items())

    def part(key, prefix, module, passes):
        for name, value in start.items():
            model.parameters[name].data.copy_(value)
            model.parameters[name].grad = None
        if module is not model:
            goldens.store(kind, tensors, prefix + "weights/", module.named_parameters())
        losses[key] = goldens.train(kind, module, docs, prefix, tensors, passes)
        off = abs(losses[key][0] - LOSSES[kind][key])
        print(kind, key, losses[key][0], "off by", off)
        return off < 2e-6

    good = part("losses", "", model, goldens.passes)
    good &= part("auxiliary_losses", "auxiliary/", model, with_auxiliary_loss)
    for name, value in start.items():
        model.parameters[name].data.copy_(value)
    good &= part("experts_losses", "experts/", Adapters(kind, model), goldens.passes)
    good &= part("lora_losses", "lora/", AttentionAdapters(kind, model), goldens.passes)
    write_safetensors(tensors, os.path.join(folder, kind + ".safetensors"))
    about = dict(
        config=dict(goldens.SHAPE, **goldens.KINDS[kind][1], model_type=kind),
        documents=docs,
        **losses,
        rate=goldens.RATE,
        decay=goldens.DECAY,
        rank=goldens.RANK,
        alpha=goldens.ALPHA,
        made_by=f"tools/goldens_plain.py, torch {torch.__version__}; losses as transformers 5.17 and PEFT 0.21 gave",
    )
    with open(os.path.join(folder, kind + ".json"), "w") as out:
        json.dump(about, out, indent=1)
    return good


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    sys.exit(not all([make(kind, sys.argv[1]) for kind in LOSSES]))


main()
