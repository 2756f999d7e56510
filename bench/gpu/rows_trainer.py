# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes rows with transformers' Trainer and PEFT, as a user's own script does; for the pilots' scripts and record_logs.sh.

    python3 bench/gpu/rows_trainer.py --rows rows.jsonl --out FOLDER [--shape llama-3.2-1b] [--micro-batch 8] …
    python3 bench/gpu/rows_trainer.py --lengths test/data/gsm8k_lengths.csv --out FOLDER [--group] [--accumulation 4] …

LoRA of rank 16 on all linears over random weights, bf16. With --rows a row's ids are its bytes and END, as gpuhours counts
them with test/data/tiny_model/tokenizer.json; with --lengths they are random tokens of these lengths. Rows come in random
order (--group: grouped by length) and are padded to the longest of their micro-batch, labels with -100. --mask on hands the
model an attention mask too, as transformers' collators do: it then leaves its causal kernel for one with a mask.
FOLDER/stamps.jsonl gets a line when training begins and at each step's end: seconds on the clock, tokens with padding.
FOLDER/result.json gets the seconds of train(), and rows and width of each micro-batch in order.
"""
import argparse
import importlib.util
import inspect
import json
import os
import time

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import Trainer, TrainerCallback, TrainingArguments

from engine_run import END, ids_of
from shapes import SHAPES, build


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", help="JSON lines with a text each")
    parser.add_argument("--lengths", help="CSV whose first column is the tokens of each row")
    parser.add_argument("--first", type=int, default=None, help="use only so many rows")
    parser.add_argument("--out", required=True)
    parser.add_argument("--shape", default="llama-3.2-1b", choices=SHAPES)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--group", action="store_true", help="group rows by length")
    parser.add_argument("--multiple", type=int, default=1, help="round widths up to a multiple of this")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--steps", type=int, default=-1, help="at most; else as the epochs say")
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--evaluate-every", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--resume", default=None, help="folder of a checkpoint")
    parser.add_argument("--mask", default="off", choices=("on", "off"))
    parser.add_argument("--bars", default="on", choices=("on", "off"))
    parser.add_argument("--tensorboard", action="store_true", help="where it is installed")
    return parser.parse_args()


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index]}


class Collator:
    """Pads to the longest row, and remembers rows and width of each micro-batch."""

    def __init__(self, mask, multiple):
        self.mask, self.multiple, self.seen = mask, multiple, []

    def __call__(self, rows):
        rows = [row["input_ids"] for row in rows]
        batch = {"input_ids": pad_sequence(rows, batch_first=True, padding_value=END),
                 "labels": pad_sequence(rows, batch_first=True, padding_value=-100)}
        missing = -batch["labels"].shape[1] % self.multiple
        if missing:
            for name, value in (("input_ids", END), ("labels", -100)):
                batch[name] = torch.nn.functional.pad(batch[name], (0, missing), value=value)
        if self.mask:
            batch["attention_mask"] = (batch["labels"] != -100).long()
        self.seen.append(list(batch["labels"].shape))
        return batch


class Stamps(TrainerCallback):
    def __init__(self, path):
        self.out = open(path, "w", buffering=1)

    def stamp(self, state):
        self.out.write(json.dumps({"step": state.global_step, "seconds": time.monotonic(),
                                   "tokens": getattr(state, "num_input_tokens_seen", 0)}) + "\n")

    def on_train_begin(self, args, state, control, **rest):
        self.stamp(state)

    def on_step_end(self, args, state, control, **rest):
        self.stamp(state)


def read_rows(given):
    if given.rows:
        with open(given.rows) as file:
            return [torch.tensor(ids_of(json.loads(line)["text"])) for line in file][:given.first]
    with open(given.lengths) as file:
        lines = [line.split(",")[0] for line in file if line[0] != "#"]
    maker = torch.Generator().manual_seed(1)
    return [torch.randint(0, SHAPES[given.shape]["vocab_size"], (int(length),), generator=maker)
            for length in lines if length.strip().isdigit()][:given.first]


def main():
    given = parse()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = read_rows(given)
    held_out = rows[:64] if given.evaluate_every else []
    os.makedirs(given.out, exist_ok=True)
    events = given.tensorboard and importlib.util.find_spec("tensorboard")
    wanted = dict(output_dir=given.out, per_device_train_batch_size=given.micro_batch,
                  per_device_eval_batch_size=given.micro_batch, max_steps=given.steps, num_train_epochs=given.epochs,
                  gradient_accumulation_steps=given.accumulation, seed=given.seed,
                  gradient_checkpointing=given.checkpointing, gradient_checkpointing_kwargs={"use_reentrant": False},
                  group_by_length=given.group, train_sampling_strategy="group_by_length" if given.group else "random",
                  learning_rate=1e-4, logging_steps=given.log_every, report_to=["tensorboard"] if events else "none",
                  eval_strategy="steps" if given.evaluate_every else "no", eval_steps=given.evaluate_every or None,
                  save_strategy="steps" if given.save_every else "no", save_steps=given.save_every or 500,
                  bf16=device == "cuda", optim="adamw_torch_fused" if device == "cuda" else "adamw_torch",
                  include_num_input_tokens_seen=True, label_names=["labels"], prediction_loss_only=True,
                  remove_unused_columns=False, disable_tqdm=given.bars == "off")
    known = inspect.signature(TrainingArguments.__init__).parameters
    arguments = TrainingArguments(**{name: value for name, value in wanted.items() if name in known})
    collator = Collator(given.mask == "on", given.multiple)
    model = build(given.shape, device=device)
    if given.checkpointing:
        model.enable_input_require_grads()
    trainer = Trainer(model=model, args=arguments, train_dataset=Rows(rows),
                      eval_dataset=Rows(held_out) if held_out else None, data_collator=collator,
                      callbacks=[Stamps(os.path.join(given.out, "stamps.jsonl"))])
    begin = time.monotonic()
    trainer.train(resume_from_checkpoint=given.resume)
    with open(os.path.join(given.out, "result.json"), "w") as file:
        json.dump({"train_seconds": time.monotonic() - begin, "micro_batches": collator.seen}, file)


main()
