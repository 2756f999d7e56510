#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""goldens.py FOLDER|FILE.tar.gz [KIND...]: what transformers and PEFT compute on tiny models, for test/train/test_goldens.c.

Needs torch, transformers, peft and safetensors; a CPU is enough. For each kind of model FOLDER gets
NAME.json (config, documents, losses) and NAME.safetensors: weights, logits and every gradient, of
Llama, Qwen 2 and Qwen 3 also the weights after three AdamW steps, trained in full and with adapters, all in fp32. Weights have the names
that they have in weight files, where an expert's matrices are apart. Some 1 MB in all; in one archive for machines from
which few files come back. The committed gpt_oss.safetensors is the exception: it was computed by a model in fp64
(transformers keeps its norms and positions in fp32) and rounded in the end.
"""

import importlib
import json
import os
import re
import sys
import tarfile
import tempfile
import traceback

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
LLAMA = dict(
    head_dim=4,
    tie_word_embeddings=False,
    rope_scaling=dict(
        rope_type="llama3",
        factor=4.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=16,
    ),
)
# The last part of an expert's file name, by the kind's own words for gate, up and down.
EXPERTS = {
    "qwen3_moe": ("mlp.", "gate_proj", "up_proj", "down_proj"),
    "mixtral": ("block_sparse_moe.", "w1", "w3", "w2"),
}
KINDS = {
    "llama": (transformers.LlamaConfig, LLAMA),
    "qwen2": (transformers.Qwen2Config, dict(tie_word_embeddings=False, use_sliding_window=False)),
    "qwen3": (
        transformers.Qwen3Config,
        dict(head_dim=4, tie_word_embeddings=True, use_sliding_window=False),
    ),
    "qwen3_moe": (
        transformers.Qwen3MoeConfig,
        dict(
            head_dim=4,
            tie_word_embeddings=False,
            use_sliding_window=False,
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
            norm_topk_prob=True,
            router_aux_loss_coef=0.5,
        ),
    ),
    "mixtral": (
        transformers.MixtralConfig,
        dict(
            head_dim=4,
            tie_word_embeddings=False,
            sliding_window=None,
            num_local_experts=4,
            num_experts_per_tok=2,
            router_aux_loss_coef=0.5,
        ),
    ),
    "gpt_oss": (
        transformers.GptOssConfig,
        dict(
            head_dim=4,
            tie_word_embeddings=False,
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters=dict(rope_type="default", rope_theta=100.0),
            pad_token_id=None,
        ),
    ),
    "gpt_oss_mxfp4": (
        transformers.GptOssConfig,
        dict(
            hidden_size=64,
            intermediate_size=32,
            head_dim=8,
            tie_word_embeddings=False,
            num_local_experts=3,
            num_experts_per_tok=2,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters=dict(
                rope_type="yarn",
                rope_theta=100.0,
                factor=4.0,
                original_max_position_embeddings=16,
                beta_fast=1.8,
                beta_slow=0.143,
                truncate=False,
            ),
            pad_token_id=None,
        ),
    ),
    "gemma2": (
        transformers.Gemma2Config,
        dict(
            head_dim=4,
            query_pre_attn_scalar=6,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention"],
            attn_logit_softcapping=2.0,
            final_logit_softcapping=3.0,
            pad_token_id=None,
        ),
    ),
    "gemma3_text": (
        transformers.Gemma3TextConfig,
        dict(
            head_dim=4,
            query_pre_attn_scalar=6,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", factor=2.0, rope_theta=100.0),
                sliding_attention=dict(rope_type="default", rope_theta=50.0),
            ),
            pad_token_id=None,
        ),
    ),
    "phi3": (
        transformers.Phi3Config,
        dict(tie_word_embeddings=False, sliding_window=None, pad_token_id=None),
    ),
    "phi3_longrope": (
        transformers.Phi3Config,
        dict(
            hidden_size=32,  # heads of 8, of which 6 are rotated
            tie_word_embeddings=False,
            sliding_window=None,
            pad_token_id=None,
            original_max_position_embeddings=8,  # the first document is longer
            rope_parameters=dict(
                rope_type="longrope",
                rope_theta=100.0,
                partial_rotary_factor=0.75,
                short_factor=[1.0, 1.25, 1.5],
                long_factor=[1.5, 2.5, 4.0],
                original_max_position_embeddings=8,
            ),
        ),
    ),
    "gemma": (transformers.GemmaConfig, dict(head_dim=4, pad_token_id=None)),
    "granite": (
        transformers.GraniteConfig,
        dict(
            tie_word_embeddings=True,
            embedding_multiplier=3.0,
            attention_multiplier=0.4,
            residual_multiplier=0.7,
            logits_scaling=2.0,
            pad_token_id=None,
        ),
    ),
    "smollm3": (
        transformers.SmolLM3Config,
        dict(tie_word_embeddings=True, use_sliding_window=False, no_rope_layers=[1, 0], pad_token_id=None),
    ),
    "llama_head": (transformers.LlamaConfig, LLAMA),
    "llama_saved": (transformers.LlamaConfig, LLAMA),
    "llama_rslora": (transformers.LlamaConfig, LLAMA),
    "llama_dora": (transformers.LlamaConfig, LLAMA),
    "llama_dpo": (transformers.LlamaConfig, LLAMA),
}
OPTIONS = {
    "llama_rslora": dict(use_rslora=True),
    "llama_dora": dict(use_dora=True),
    "llama_saved": dict(modules_to_save=["embed_tokens", "lm_head"]),
}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
TARGETS = {
    "qwen3_moe": ATTENTION,
    "mixtral": ATTENTION,
    "gpt_oss": ATTENTION,
    "gpt_oss_mxfp4": ATTENTION,
    "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
    "phi3_longrope": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
    "llama_head": ATTENTION + ["lm_head"],
    "llama_saved": ATTENTION,
}
BETA = 0.5  # of DPO
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RATE, DECAY, RANK, ALPHA = 1e-2, 0.1, 2, 8
STEPS = {"llama": 3, "qwen2": 3, "qwen3": 3}  # others: the first gradients; the optimizer is the same


def documents():
    """Token ids and whether each carries loss: a document of 13 tokens, one of 6, one of 2."""
    generator = torch.Generator().manual_seed(5)
    made = []
    for size in (13, 6, 2):
        ids = torch.randint(0, SHAPE["vocab_size"], (size,), generator=generator).tolist()
        made.append(dict(ids=ids, learned=[int(i % 4 != 2) for i in range(size)]))
    return made


def fill(kind, module, seed):
    """Weights large enough that every part of the model matters. Gemma's norms multiply by 1 + their weight."""
    norm = 0 if kind.startswith("gemma") else 1
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted(module.named_parameters()):
        if not weight.requires_grad and "lora" not in name and seed != 1:
            continue
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            if "magnitude" in name:
                weight.mul_(1 + 0.1 * noise)
            else:
                weight.copy_(norm + 0.1 * noise if "norm" in name else 0.3 * noise)


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


def in_files(kind, name, tensor):
    """A parameter as weight files hold it: (name, tensor), an expert at a time."""
    found = re.fullmatch(r"(.*\.)(?:mlp|block_sparse_moe)\.(experts\.(gate_up_proj|down_proj)|gate\.weight)", name)
    if kind not in EXPERTS or not found:
        return [(plain(name), tensor)]
    folder, gate, up, down = EXPERTS[kind]
    if found[2] == "gate.weight":
        return [(found[1] + folder + "gate.weight", tensor)]
    made = []
    for i, expert in enumerate(tensor):
        path = f"{found[1]}{folder}experts.{i}."
        if found[3] == "down_proj":
            made.append((f"{path}{down}.weight", expert))
        else:
            halves = expert.chunk(2, dim=0)
            made += [(f"{path}{gate}.weight", halves[0]), (f"{path}{up}.weight", halves[1])]
    return made


def store(kind, tensors, prefix, named):
    for name, tensor in named:
        for path, part in in_files(kind, name, tensor):
            tensors[prefix + path] = part.detach().clone()


def train(kind, model, docs, prefix, tensors, passes=passes):
    """The first step's gradients, and the weights after the last step; returns the losses of the steps."""
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
    for step in range(STEPS.get(kind, 1)):
        logits, loss = passes(model, docs)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            tensors[prefix + "logits"] = logits.detach().clone()
            store(kind, tensors, prefix + "gradients/", ((n, p.grad) for n, p in trained.items()))
        optimizer.step()
    if kind in STEPS:
        store(kind, tensors, prefix + "after/", trained.items())
    return losses


class ExpertAdapters:
    """Every linear of every expert, and of attention, with a LoRA of its own: W + s B A, computed by a
    model whose weights are replaced, so that nothing depends on how PEFT treats stacked experts."""

    def __init__(self, kind, model):
        self.kind, self.model = kind, model
        self.weights = {n: p.detach() for n, p in model.named_parameters()}
        self.adapters = {}
        generator = torch.Generator().manual_seed(3)
        for name, weight in sorted(self.weights.items()):
            if not re.search(r"experts\.(gate_up|down)_proj$|self_attn\.[qkvo]_proj", name):
                continue
            for path, part in in_files(kind, name, weight):
                for factor, shape in (("A", (RANK, part.shape[1])), ("B", (part.shape[0], RANK))):
                    self.adapters[self.name_of(path, factor)] = torch.nn.Parameter(
                        0.3 * torch.randn(shape, generator=generator)
                    )

    @staticmethod
    def name_of(path, factor):
        return f"base_model.model.{path.removesuffix('.weight')}.lora_{factor}.weight"

    def named_parameters(self):
        return self.adapters.items()

    def adapted(self, path, weight):
        a, b = (self.adapters.get(self.name_of(path, f)) for f in "AB")
        return weight if a is None else weight + ALPHA / RANK * b @ a

    def weights_with_adapters(self):
        weights = {}
        for name, weight in self.weights.items():
            parts = [self.adapted(path, w) for path, w in in_files(self.kind, name, weight)]
            if len(parts) == 1:
                weights[name] = parts[0]
            elif name.endswith("down_proj"):
                weights[name] = torch.stack(parts)
            else:
                pairs = zip(parts[::2], parts[1::2])
                weights[name] = torch.stack([torch.cat(pair) for pair in pairs])
        return weights

    def __call__(self, input_ids):
        weights = self.weights_with_adapters()
        return torch.func.functional_call(self.model, weights, kwargs=dict(input_ids=input_ids))


def with_auxiliary_loss(model, inner):
    """The loss with the load-balancing loss of all documents together. Its logits are computed here:
    what the router returns under that name has gone through softmax."""
    config = inner.config
    balance = importlib.import_module(type(inner).__module__).load_balancing_loss_func
    routers = [m for n, m in inner.named_modules() if re.search(r"(mlp|block_sparse_moe)\.gate$", n)]

    def run(_, docs):
        seen = {}
        def note(module, args):
            logits = torch.nn.functional.linear(args[0].reshape(-1, config.hidden_size), module.weight)
            seen.setdefault(module, []).append(logits)
        hooks = [router.register_forward_pre_hook(note) for router in routers]
        logits, loss = passes(model, docs)
        for hook in hooks:
            hook.remove()
        experts = getattr(config, "num_experts", None) or config.num_local_experts
        every = tuple(torch.cat(seen[router]) for router in routers)
        return logits, loss + config.router_aux_loss_coef * balance(every, experts, config.num_experts_per_tok)

    return run


def preferences(model, docs):
    """DPO of the first document against the second, and of the third against the first; the reference
    is the model without its adapters. In place of logits: the log-probability of each document."""
    def likelihoods():
        found = []
        for doc in docs:
            ids = torch.tensor([doc["ids"]])
            keep = torch.tensor(doc["learned"][1:], dtype=torch.float32)
            every = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
            found.append((every.gather(1, ids[0, 1:, None])[:, 0] * keep).sum())
        return torch.stack(found)
    own = likelihoods()
    with torch.no_grad(), model.disable_adapter():
        reference = likelihoods()
    gain = BETA * (own - reference)
    margins = torch.stack([gain[0] - gain[1], gain[2] - gain[0]])
    return torch.stack([own, reference]), -torch.nn.functional.logsigmoid(margins).mean()


def pack_experts(model, generator):
    """Gives the experts random MXFP4 codes and scales, as weight files of gpt-oss hold them, and the model
    the values that transformers makes of them; returns codes and scales by name."""
    convert = importlib.import_module("transformers.integrations.mxfp4").convert_moe_packed_tensors
    packed = {}
    for name, weight in model.named_parameters():
        if not re.search(r"experts\.(gate_up|down)_proj$", name):
            continue
        experts, width, rows = weight.shape  # (E, in, out)
        blocks = torch.randint(0, 256, (experts, rows, width // 32, 16), generator=generator).to(torch.uint8)
        scales = torch.randint(121, 126, (experts, rows, width // 32), generator=generator).to(torch.uint8)
        values = convert(blocks.clone(), scales.clone(), dtype=torch.float32)
        assert values.shape == weight.shape, (values.shape, weight.shape)
        weight.data.copy_(values)
        packed[name + "_blocks"], packed[name + "_scales"] = blocks, scales
    return packed


def build(config):
    options = dict(attn_implementation="eager", experts_implementation="eager")
    try:
        return transformers.AutoModelForCausalLM.from_config(config, **options)
    except (TypeError, ValueError):
        options.pop("experts_implementation")
        return transformers.AutoModelForCausalLM.from_config(config, **options)


def restored(model, start):
    model.load_state_dict(start)
    return model


def adapters_of(kind, model, tensors):
    options = dict(target_modules=TARGETS.get(kind, LINEARS), lora_dropout=0.0)
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, **options, **OPTIONS.get(kind, {}))
    adapted = peft.get_peft_model(model, config).eval()
    fill(kind, adapted, 2)
    trained = [(n, p) for n, p in adapted.named_parameters() if p.requires_grad]
    store(kind, tensors, "lora/weights/", trained)
    return adapted


def make(kind, folder):
    config_class, more = KINDS[kind]
    shape = {k: v for k, v in SHAPE.items() if k != "rope_theta" or "rope_parameters" not in more}
    config = config_class(**{**shape, **more})
    docs, tensors, losses = documents(), {}, {}
    model = build(config).float().eval()
    fill(kind, model, 1)
    if kind == "gpt_oss":  # so that the clamp at 7 is met
        for layer in model.model.layers:
            layer.mlp.experts.gate_up_proj.data.mul_(12)
    packed = pack_experts(model, torch.Generator().manual_seed(4)) if kind == "gpt_oss_mxfp4" else {}
    others = ((n, p) for n, p in model.named_parameters() if n + "_blocks" not in packed)
    store(kind, tensors, "weights/", [*others, *packed.items()])
    start = {n: p.detach().clone() for n, p in model.state_dict().items()}
    if not kind.startswith("llama_") and not packed:
        losses["losses"] = train(kind, model, docs, "", tensors)
    if kind in EXPERTS:
        run = with_auxiliary_loss(model, restored(model, start))
        losses["auxiliary_losses"] = train(kind, model, docs, "auxiliary/", tensors, run)
        wrapped = ExpertAdapters(kind, restored(model, start))
        store(kind, tensors, "experts/weights/", wrapped.named_parameters())
        losses["experts_losses"] = train(kind, wrapped, docs, "experts/", tensors)
    adapted = adapters_of(kind, restored(model, start), tensors)
    run = preferences if kind == "llama_dpo" else passes
    losses["lora_losses"] = train(kind, adapted, docs, "lora/", tensors, run)
    path = os.path.join(folder, kind + ".safetensors")
    save_file({n: t.contiguous() for n, t in tensors.items()}, path)
    about = dict(
        config=json.loads(config.to_json_string(use_diff=False)),
        documents=docs,
        **losses,
        rate=RATE,
        decay=DECAY,
        rank=RANK,
        alpha=ALPHA,
        made_by="torch %s, transformers %s, peft %s"
        % (torch.__version__, transformers.__version__, peft.__version__),
    )
    with open(os.path.join(folder, kind + ".json"), "w") as out:
        json.dump(about, out, indent=1)
    print(kind, losses)


def make_all(folder, kinds):
    """How many of them failed; one that fails does not stop the others."""
    os.makedirs(folder, exist_ok=True)
    torch.use_deterministic_algorithms(True)
    failed = 0
    for kind in kinds:
        try:
            make(kind, folder)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(kind, "failed")
    return failed


def main():
    target, kinds = sys.argv[1], sys.argv[2:] or KINDS
    if not target.endswith(".tar.gz"):
        sys.exit(make_all(target, kinds) > 0)
    with tempfile.TemporaryDirectory() as folder, tarfile.open(target, "w:gz") as archive:
        failed = make_all(folder, kinds)
        for name in sorted(os.listdir(folder)):
            archive.add(os.path.join(folder, name), name)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
