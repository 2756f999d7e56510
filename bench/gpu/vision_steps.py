# SPDX-License-Identifier: Apache-2.0
"""Steps of models that read images, by transformers with PEFT: forecasts, and what they are held against.

    python3 bench/gpu/vision_steps.py forecast OUT.jsonl       here: what `gpuhours plan` says of each case, before
    python3 bench/gpu/vision_steps.py OUT.jsonl FORECAST.jsonl [SECONDS [trainer]]     there: median step, time in the encoder,
                                                               allocated memory, in a bare loop or by transformers' Trainer

Random weights and pixels, bf16, a frozen encoder, adapters of rank 16 on the language model's linears as PEFT makes them (or all
of its weights), autocast as Trainer has it with bf16, fused AdamW, attention as transformers chooses. Every row has the same text and
the same images, so nothing is padded; text is labelled, images are not.
"""
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

# model, method, rows, words of text, images a row, their size, recomputation
CASES = [("qwen2.5-vl-3b", "lora", 4, 200, 1, (1024, 768), False),
         ("qwen2.5-vl-7b", "lora", 2, 200, 1, (1024, 768), False),
         ("qwen2.5-vl-7b", "lora", 2, 300, 2, (1288, 952), True),
         ("qwen3-vl-8b", "lora", 2, 400, 1, (1024, 1024), True),
         ("qwen2-vl-2b", "full", 4, 200, 1, (1024, 768), False),
         ("llava-1.5-7b", "lora", 8, 100, 1, (640, 480), True),
         ("llava-1.5-7b", "lora", 2, 400, 1, (640, 480), False),
         ("gemma-3-4b", "lora", 4, 400, 1, (1024, 768), False),
         ("gemma-3-12b", "lora", 2, 400, 2, (1024, 768), True),
         # forecast after the causes of what these nine showed were mended
         ("qwen2.5-vl-7b", "lora", 8, 150, 1, (448, 448), False),
         ("qwen2.5-vl-3b", "full", 4, 300, 1, (640, 480), True),
         ("qwen2-vl-7b", "lora", 2, 300, 2, (1024, 768), True),
         ("qwen3-vl-4b", "lora", 8, 300, 1, (1024, 1024), False),
         ("qwen3-vl-8b", "full", 2, 300, 2, (640, 640), True),
         ("internvl3-8b", "lora", 2, 300, 1, (1024, 768), True),
         ("gemma-3-4b", "full", 4, 400, 1, (1024, 768), False),
         ("llava-1.5-13b", "lora", 4, 300, 2, (640, 480), True),
         # forecast after these were reference runs: held against the range that they gave
         ("qwen2.5-vl-7b", "lora", 2, 200, 4, (224, 224), False),
         ("qwen2.5-vl-32b", "lora", 1, 300, 1, (1024, 768), True),
         ("qwen3-vl-2b", "lora", 16, 100, 1, (512, 512), False),
         ("qwen3-vl-8b", "lora", 1, 200, 6, (800, 608), True),
         ("qwen2-vl-2b", "lora", 16, 60, 1, (336, 336), True),
         ("llava-1.5-7b", "full", 8, 200, 1, (640, 480), True),
         ("internvl3-2b", "full", 8, 300, 1, (448, 448), False),
         ("gemma-3-27b", "lora", 2, 300, 1, (1024, 768), True)]
TARGETS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
QWEN = dict(image_token_id=151655, vision_start_token_id=151652, vision_end_token_id=151653)
ROPE = dict(rope_type="default", rope_theta=1e6)
SHAPES = {
    "qwen2.5-vl-3b": ("Qwen2_5_VL", dict(hidden_size=2048, num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=2,
                                         intermediate_size=11008, vocab_size=151936, rope_parameters=dict(ROPE, mrope_section=[16, 24, 24])),
                      dict(depth=32, hidden_size=1280, num_heads=16, intermediate_size=3420, out_hidden_size=2048, window_size=112,
                           fullatt_block_indexes=[7, 15, 23, 31], patch_size=14, spatial_merge_size=2), dict(QWEN, tie_word_embeddings=True)),
    "qwen2.5-vl-7b": ("Qwen2_5_VL", dict(hidden_size=3584, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
                                         intermediate_size=18944, vocab_size=152064, rope_parameters=dict(ROPE, mrope_section=[16, 24, 24])),
                      dict(depth=32, hidden_size=1280, num_heads=16, intermediate_size=3420, out_hidden_size=3584, window_size=112,
                           fullatt_block_indexes=[7, 15, 23, 31], patch_size=14, spatial_merge_size=2), dict(QWEN, tie_word_embeddings=False)),
    "qwen3-vl-8b": ("Qwen3VL", dict(hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                                    intermediate_size=12288, vocab_size=151936,
                                    rope_parameters=dict(ROPE, mrope_section=[24, 20, 20], mrope_interleaved=True)),
                    dict(depth=27, hidden_size=1152, num_heads=16, intermediate_size=4304, out_hidden_size=4096, patch_size=16,
                         spatial_merge_size=2, deepstack_visual_indexes=[8, 16, 24]), dict(QWEN, tie_word_embeddings=False)),
    "qwen2.5-vl-32b": ("Qwen2_5_VL", dict(hidden_size=5120, num_hidden_layers=64, num_attention_heads=40, num_key_value_heads=8,
                                          intermediate_size=27648, vocab_size=152064, rope_parameters=dict(ROPE, mrope_section=[16, 24, 24])),
                       dict(depth=32, hidden_size=1280, num_heads=16, intermediate_size=3456, out_hidden_size=5120, window_size=112,
                            fullatt_block_indexes=[7, 15, 23, 31], patch_size=14, spatial_merge_size=2), dict(QWEN, tie_word_embeddings=False)),
    "qwen3-vl-2b": ("Qwen3VL", dict(hidden_size=2048, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
                                    intermediate_size=6144, vocab_size=151936,
                                    rope_parameters=dict(ROPE, mrope_section=[24, 20, 20], mrope_interleaved=True)),
                    dict(depth=24, hidden_size=1024, num_heads=16, intermediate_size=4096, out_hidden_size=2048, patch_size=16,
                         spatial_merge_size=2, deepstack_visual_indexes=[5, 11, 17]), dict(QWEN, tie_word_embeddings=True)),
    "internvl3-2b": ("InternVL", dict(model_type="qwen2", hidden_size=1536, num_hidden_layers=28, num_attention_heads=12,
                                      num_key_value_heads=2, intermediate_size=8960, vocab_size=151674),
                     dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                          image_size=[448, 448], patch_size=[14, 14], attention_bias=True, use_mean_pooling=True),
                     dict(image_token_id=151667, image_seq_length=256, downsample_ratio=0.5, tie_word_embeddings=False)),
    "gemma-3-27b": ("Gemma3", dict(hidden_size=5376, num_hidden_layers=62, num_attention_heads=32, num_key_value_heads=16, head_dim=128,
                                   intermediate_size=21504, vocab_size=262208, sliding_window=1024),
                    dict(hidden_size=1152, num_hidden_layers=27, num_attention_heads=16, intermediate_size=4304, image_size=896, patch_size=14),
                    dict(image_token_index=262144, mm_tokens_per_image=256, tie_word_embeddings=True)),
    "qwen3-vl-4b": ("Qwen3VL", dict(hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                                    intermediate_size=9728, vocab_size=151936,
                                    rope_parameters=dict(ROPE, mrope_section=[24, 20, 20], mrope_interleaved=True)),
                    dict(depth=24, hidden_size=1024, num_heads=16, intermediate_size=4096, out_hidden_size=2560, patch_size=16,
                         spatial_merge_size=2, deepstack_visual_indexes=[5, 11, 17]), dict(QWEN, tie_word_embeddings=True)),
    "qwen2-vl-7b": ("Qwen2VL", dict(hidden_size=3584, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
                                    intermediate_size=18944, vocab_size=152064, rope_parameters=dict(ROPE, mrope_section=[16, 24, 24])),
                    dict(depth=32, embed_dim=1280, num_heads=16, mlp_ratio=4, hidden_size=3584, patch_size=14, spatial_merge_size=2),
                    dict(QWEN, tie_word_embeddings=False)),
    "internvl3-8b": ("InternVL", dict(model_type="qwen2", hidden_size=3584, num_hidden_layers=28, num_attention_heads=28,
                                      num_key_value_heads=4, intermediate_size=18944, vocab_size=151674),
                     dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                          image_size=[448, 448], patch_size=[14, 14], attention_bias=True, use_mean_pooling=True),
                     dict(image_token_id=151667, image_seq_length=256, downsample_ratio=0.5, tie_word_embeddings=False)),
    "llava-1.5-13b": ("Llava", dict(model_type="llama", hidden_size=5120, num_hidden_layers=40, num_attention_heads=40,
                                    num_key_value_heads=40, intermediate_size=13824, vocab_size=32064),
                      dict(model_type="clip_vision_model", hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                           intermediate_size=4096, image_size=336, patch_size=14, projection_dim=768),
                      dict(image_token_index=32000, vision_feature_layer=-2, tie_word_embeddings=False)),
    "qwen2-vl-2b": ("Qwen2VL", dict(hidden_size=1536, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
                                    intermediate_size=8960, vocab_size=151936, rope_parameters=dict(ROPE, mrope_section=[16, 24, 24])),
                    dict(depth=32, embed_dim=1280, num_heads=16, mlp_ratio=4, hidden_size=1536, patch_size=14, spatial_merge_size=2),
                    dict(QWEN, tie_word_embeddings=True)),
    "llava-1.5-7b": ("Llava", dict(model_type="llama", hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
                                   num_key_value_heads=32, intermediate_size=11008, vocab_size=32064),
                     dict(model_type="clip_vision_model", hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                          intermediate_size=4096, image_size=336, patch_size=14, projection_dim=768),
                     dict(image_token_index=32000, vision_feature_layer=-2, tie_word_embeddings=False)),
    "gemma-3-4b": ("Gemma3", dict(hidden_size=2560, num_hidden_layers=34, num_attention_heads=8, num_key_value_heads=4, head_dim=256,
                                  intermediate_size=10240, vocab_size=262208, sliding_window=1024),
                   dict(hidden_size=1152, num_hidden_layers=27, num_attention_heads=16, intermediate_size=4304, image_size=896, patch_size=14),
                   dict(image_token_index=262144, mm_tokens_per_image=256, tie_word_embeddings=True)),
    "gemma-3-12b": ("Gemma3", dict(hidden_size=3840, num_hidden_layers=48, num_attention_heads=16, num_key_value_heads=8, head_dim=256,
                                   intermediate_size=15360, vocab_size=262208, sliding_window=1024),
                    dict(hidden_size=1152, num_hidden_layers=27, num_attention_heads=16, intermediate_size=4304, image_size=896, patch_size=14),
                    dict(image_token_index=262144, mm_tokens_per_image=256, tie_word_embeddings=True)),
}


def forecast(path, program="build/gpuhours"):
    with open(path, "w") as out, tempfile.TemporaryDirectory() as folder:
        for model, method, rows, words, images, (width, height), recompute in CASES:
            data = os.path.join(folder, "rows.jsonl")
            content = [{"type": "image"}] * images + [{"type": "text", "text": "word " * words}]
            with open(data, "w") as file:
                for _ in range(8 * rows):
                    print(json.dumps({"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "yes"}]}), file=file)
            plan = json.loads(subprocess.run(
                [program, "plan", data, "--image-size", f"{width}x{height}", "--model", model, "--gpu", "h200", "--gpus", "1",
                 "--stack", "hf-peft" if method == "lora" else "hf", "--method", method, "--micro-batch", str(rows), "--global-batch", str(rows),
                 "--checkpointing", "full" if recompute else "none", "--weights", "bf16", "--states", "bf16" if method == "full" else "fp32",
                 "--labels", "all", "--search", "off", "--ledger", "off", "--quiet", "--json"], capture_output=True, text=True, check=True).stdout)
            row = dict(model=model, method=method, rows=rows, images=images, size=[width, height], recompute=recompute,
                       width=round(plan["step"]["batch"]["width"]), image_tokens=plan["images"], step_s=plan["step"]["seconds"],
                       low_s=plan["step"]["seconds"] * plan["tokens_per_second"]["p50"] / plan["tokens_per_second"]["p90"],
                       high_s=plan["step"]["seconds"] * plan["tokens_per_second"]["p50"] / plan["tokens_per_second"]["p10"],
                       allocated_gib=plan["memory"]["allocated_bytes"] / 2**30)
            print(json.dumps(row), file=out)


def pixels_of(kind, vision, row):
    """Arguments of the model for its images, and the tokens of each."""
    import torch

    count = row["rows"] * row["images"]
    if kind.startswith("Qwen"):
        side = vision["patch_size"] * vision["spatial_merge_size"]
        across, down = (round(pixels / side) * vision["spatial_merge_size"] for pixels in row["size"])
        grid = torch.tensor([[1, down, across]] * count, device="cuda")
        pixels = torch.randn(count * down * across, 3 * 2 * vision["patch_size"] ** 2, device="cuda", dtype=torch.bfloat16)
        return dict(pixel_values=pixels, image_grid_thw=grid), down * across // vision["spatial_merge_size"] ** 2
    side = vision["image_size"]
    if kind == "InternVL":
        tiles = {1024: 13, 448: 1}[row["size"][0]]  # 4 × 3 of an image of 1024 × 768, and the whole of it
        return dict(pixel_values=torch.randn(count * tiles, 3, *side, device="cuda", dtype=torch.bfloat16)), 256 * tiles
    tokens = 256 if kind == "Gemma3" else (side // vision["patch_size"]) ** 2
    return dict(pixel_values=torch.randn(count, 3, side, side, device="cuda", dtype=torch.bfloat16)), tokens


def ids_of(row, tokens, marker, around, vocabulary):
    import torch

    image = [around[0]] + [marker] * tokens + [around[1]] if around else [marker] * tokens
    images = image * row["images"]
    text = torch.randint(10, min(vocabulary, 30000), (row["rows"], row["width"] - len(images)), device="cuda")
    ids = torch.cat([torch.tensor([images] * row["rows"], device="cuda"), text], dim=1)
    labels = ids.clone()
    labels[:, :len(images)] = -100
    return ids, labels


def carries_gradient(made):
    import torch

    if torch.is_tensor(made):
        return made.requires_grad
    return any(map(carries_gradient, made.values() if hasattr(made, "values") else made)) if made is not None else False


def by_trainer(model, row, batch, steps):
    """Seconds of each step of transformers' Trainer, whose collator has the batch at hand."""
    import torch
    import transformers

    times, start = [], []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            torch.cuda.synchronize()
            start.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start[-1])

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=row["rows"], max_steps=steps, bf16=True, optim="adamw_torch_fused", report_to="none",
            logging_strategy="no", save_strategy="no", remove_unused_columns=False, gradient_checkpointing=row["recompute"],
            gradient_checkpointing_kwargs={"use_reentrant": False} if row["recompute"] else None)
        transformers.Trainer(model, arguments, train_dataset=[0] * (row["rows"] * steps), data_collator=lambda _: batch(),
                             callbacks=[Clock()]).train()
    return times


def measure(row, trainer=False, steps=10, warm=4):
    import torch
    import transformers

    kind, text, vision, rest = SHAPES[row["model"]]
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    config = getattr(transformers, kind + "Config")(text_config=dict(text, max_position_embeddings=32768, use_cache=False,
                                                                     tie_word_embeddings=rest["tie_word_embeddings"]),
                                                    vision_config=vision, **rest)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = getattr(transformers, kind + "ForConditionalGeneration")(config)
    torch.set_default_dtype(torch.float32)
    tower = next(module for name, module in model.named_modules() if name.endswith((".visual", ".vision_tower")))
    encoder = sum(p.numel() for p in tower.parameters())
    model.requires_grad_(False)
    if row["method"] == "lora":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=TARGETS, task_type="CAUSAL_LM"))
    else:
        for name, weight in model.named_parameters():
            weight.requires_grad_(".visual." not in name and ".vision_tower." not in name)
    if row["recompute"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if row["method"] == "lora":
            model.enable_input_require_grads()
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = None if trainer else torch.optim.AdamW(trained, lr=1e-4, fused=True)
    arguments, tokens = pixels_of(kind, vision, row)
    marker = rest.get("image_token_id", rest.get("image_token_index"))
    around = (QWEN["vision_start_token_id"], QWEN["vision_end_token_id"]) if kind.startswith("Qwen") else \
        (255999, 256000) if kind == "Gemma3" else None
    marks, gradients = [], []
    tower.register_forward_hook(lambda module, given, made: gradients.append(carries_gradient(made)))
    tower.register_forward_pre_hook(lambda *_: marks.append(torch.cuda.Event(enable_timing=True)) or marks[-1].record())
    tower.register_forward_hook(lambda *_: marks.append(torch.cuda.Event(enable_timing=True)) or marks[-1].record())
    times, seen = [], []

    def batch():
        ids, labels = ids_of(row, tokens, marker, around, text["vocab_size"])
        kinds = (ids == marker).int()
        given = dict(arguments, input_ids=ids, labels=labels, attention_mask=torch.ones_like(ids))
        if kind == "Gemma3":
            given["token_type_ids"] = kinds
        elif kind.startswith("Qwen"):
            given["mm_token_type_ids"] = kinds
        return given

    if trainer:
        times = by_trainer(model, row, lambda: {name: value.cpu() for name, value in batch().items()}, steps)
        seen = [marks[i].elapsed_time(marks[i + 1]) / 1e3 for i in range(0, len(marks), 2)]
    for _ in range(0 if trainer else steps):
        given = batch()
        marks.clear()
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**given).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        seen.append(marks[0].elapsed_time(marks[1]) / 1e3)
    step = statistics.median(times[warm:])
    return dict(model=row["model"], method=row["method"], trainer=trainer, rows=row["rows"], recompute=row["recompute"], width=row["width"],
                image_tokens=tokens, step_s=round(step, 5), encoder_s=round(statistics.median(seen[warm:]), 5), encoder_gradients=gradients[-1],
                forecast_s=round(row["step_s"], 5), ratio=round(row["step_s"] / step, 3), inside=row["low_s"] <= step <= row["high_s"],
                allocated_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2), forecast_gib=round(row["allocated_gib"], 2),
                parameters=sum(p.numel() for p in model.parameters()), encoder_parameters=encoder,
                attention=[config.text_config._attn_implementation, config.vision_config._attn_implementation])


def main():
    if sys.argv[1] == "forecast":
        return forecast(sys.argv[2])
    import torch

    out, end = open(sys.argv[1], "a"), time.time() + float(sys.argv[3] if len(sys.argv) > 3 else 400)
    for line in open(sys.argv[2]):
        row = json.loads(line)
        if time.time() > end:
            break
        try:
            result = measure(row, sys.argv[4:] == ["trainer"])
        except Exception as error:  # the other cases go on
            torch.set_default_dtype(torch.float32)
            traceback.print_exc()
            result = dict(model=row["model"], error=repr(error)[:300])
        gc.collect()
        print(json.dumps(result), flush=True)
        out.write(json.dumps(result) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
