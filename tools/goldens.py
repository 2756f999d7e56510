#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""goldens.py FOLDER: what transformers and PEFT compute on tiny models, for test/train/test_goldens.c.

Needs torch, transformers, peft and safetensors; a CPU is enough. For each kind of model FOLDER gets
NAME.json (config, documents, loss) and NAME.safetensors: weights, logits, every gradient and the
weights after three AdamW steps, trained in full and with LoRA, all in fp32. Some 250 kB in all.
"""

import json
import os
import sys

import peft
import torch
import transformers
from safetensors.torch import save_file

SHAPE = dict(
    vocab_size=31,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    rope_theta=100.0,
)
KINDS = {
    "llama": (
        transformers.LlamaConfig,
        dict(
            head_dim=4,
            tie_word_embeddings=False,
            rope_scaling=dict(
                rope_type="llama3",
                factor=4.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=16,
            ),
        ),
    ),
    "qwen2": (transformers.Qwen2Config, dict(tie_word_embeddings=False, use_sliding_window=False)),
    "qwen3": (
        transformers.Qwen3Config,
        dict(head_dim=4, tie_word_embeddings=True, use_sliding_window=False),
    ),
}
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RATE, DECAY, STEPS, RANK, ALPHA = 1e-2, 0.1, 3, 2, 8


def documents():
    """Token ids and whether each carries loss: a document of 13 tokens, one of 6, one of 2."""
    generator = torch.Generator().manual_seed(5)
    made = []
    for size in (13, 6, 2):
        ids = torch.randint(0, SHAPE["vocab_size"], (size,), generator=generator).tolist()
        made.append(dict(ids=ids, learned=[int(i % 4 != 2) for i in range(size)]))
    return made


def fill(module, seed):
    """Weights large enough that every part of the model matters."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted(module.named_parameters()):
        if not weight.requires_grad and "lora" not in name and seed != 1:
            continue
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            weight.copy_(1 + 0.1 * noise if "norm" in name else 0.3 * noise)


def passes(model, docs):
    """Logits that carry loss, document after document, and the mean loss over their labels."""
    logits, losses = [], []
    for doc in docs:
        ids = torch.tensor([doc["ids"]])
        out = model(input_ids=ids).logits[0, :-1]
        keep = torch.tensor(doc["learned"][1:], dtype=torch.bool)
        logits.append(out[keep])
        targets = ids[0, 1:][keep]
        losses.append(torch.nn.functional.cross_entropy(out[keep], targets, reduction="sum"))
    every = torch.cat(logits)
    return every, torch.stack(losses).sum() / every.shape[0]


def plain(name):
    return name.replace(".default", "")


def train(model, docs, prefix, tensors):
    """One step's gradients, then three steps; returns the losses of the three."""
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    decays = [p for n, p in trained.items() if "norm" not in n and not n.endswith("bias")]
    others = [p for n, p in trained.items() if "norm" in n or n.endswith("bias")]
    optimizer = torch.optim.AdamW(
        [dict(params=decays, weight_decay=DECAY), dict(params=others, weight_decay=0.0)],
        lr=RATE,
        betas=(0.9, 0.999),
        eps=1e-8,
    )
    losses = []
    for step in range(STEPS):
        logits, loss = passes(model, docs)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            tensors[prefix + "logits"] = logits.detach().clone()
            for name, p in trained.items():
                tensors[prefix + "gradients/" + plain(name)] = p.grad.detach().clone()
        optimizer.step()
    for name, p in trained.items():
        tensors[prefix + "after/" + plain(name)] = p.detach().clone()
    return losses


def make(kind, folder):
    config_class, more = KINDS[kind]
    config = config_class(**SHAPE, **more)
    docs, tensors = documents(), {}
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model = model.float().eval()
    fill(model, 1)
    for name, p in model.named_parameters():
        tensors["weights/" + name] = p.detach().clone()
    start = {n: p.detach().clone() for n, p in model.state_dict().items()}
    full = train(model, docs, "", tensors)
    model.load_state_dict(start)
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=LINEARS, lora_dropout=0.0)
    ).eval()
    fill(adapted, 2)
    for name, p in adapted.named_parameters():
        if p.requires_grad:
            tensors["lora/weights/" + plain(name)] = p.detach().clone()
    lora = train(adapted, docs, "lora/", tensors)
    save_file(
        {n: t.contiguous() for n, t in tensors.items()}, os.path.join(folder, kind + ".safetensors")
    )
    about = dict(
        config=json.loads(config.to_json_string(use_diff=False)),
        documents=docs,
        losses=full,
        lora_losses=lora,
        rate=RATE,
        decay=DECAY,
        rank=RANK,
        alpha=ALPHA,
        made_by="torch %s, transformers %s, peft %s"
        % (torch.__version__, transformers.__version__, peft.__version__),
    )
    with open(os.path.join(folder, kind + ".json"), "w") as out:
        json.dump(about, out, indent=1)
    print(kind, "losses", full, lora)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    torch.use_deterministic_algorithms(True)
    for kind in KINDS:
        make(kind, folder)


main()
