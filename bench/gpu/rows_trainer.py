"""Fine-tunes the rows of a file with transformers' Trainer and PEFT, as a user's own script does; for pilot_wrapped_run.sh
and record_logs.sh.

    python3 bench/gpu/rows_trainer.py --rows rows.jsonl --out FOLDER [--shape llama-3.2-1b] [--micro-batch 8] …

LoRA of rank 16 on all linears over random weights, bf16. A row's ids are its bytes and END, as gpuhours counts them with
test/data/tiny_model/tokenizer.json; rows come in random order and are padded to the longest of their micro-batch, labels
with -100. --mask on hands the model an attention mask too: transformers then leaves its causal kernel for one with a mask.
FOLDER/stamps.jsonl gets a line when training begins and at each step's end: seconds on the clock, tokens with padding.
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
    parser.add_argument("--rows", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--shape", default="llama-3.2-1b", choices=SHAPES)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=-1, help="at most; else as the epochs say")
    parser.add_argument("--epochs", type=float, default=1)
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
    """Pads to the longest row."""

    def __init__(self, mask):
        self.mask = mask

    def __call__(self, rows):
        rows = [row["input_ids"] for row in rows]
        batch = {"input_ids": pad_sequence(rows, batch_first=True, padding_value=END),
                 "labels": pad_sequence(rows, batch_first=True, padding_value=-100)}
        if self.mask:
            batch["attention_mask"] = (batch["labels"] != -100).long()
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


def main():
    said = parse()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with open(said.rows) as file:
        rows = [torch.tensor(ids_of(json.loads(line)["text"])) for line in file]
    held_out = rows[:64] if said.evaluate_every else []
    os.makedirs(said.out, exist_ok=True)
    events = said.tensorboard and importlib.util.find_spec("tensorboard")
    wanted = dict(output_dir=said.out, per_device_train_batch_size=said.micro_batch,
                  per_device_eval_batch_size=said.micro_batch, max_steps=said.steps, num_train_epochs=said.epochs,
                  learning_rate=1e-4, logging_steps=said.log_every, report_to=["tensorboard"] if events else "none",
                  eval_strategy="steps" if said.evaluate_every else "no", eval_steps=said.evaluate_every or None,
                  save_strategy="steps" if said.save_every else "no", save_steps=said.save_every or 500,
                  bf16=device == "cuda", optim="adamw_torch_fused" if device == "cuda" else "adamw_torch",
                  include_num_input_tokens_seen=True, label_names=["labels"], prediction_loss_only=True,
                  remove_unused_columns=False, disable_tqdm=said.bars == "off")
    known = inspect.signature(TrainingArguments.__init__).parameters
    arguments = TrainingArguments(**{name: value for name, value in wanted.items() if name in known})
    trainer = Trainer(model=build(said.shape, device=device), args=arguments, train_dataset=Rows(rows),
                      eval_dataset=Rows(held_out) if held_out else None, data_collator=Collator(said.mask == "on"),
                      callbacks=[Stamps(os.path.join(said.out, "stamps.jsonl"))])
    trainer.train(resume_from_checkpoint=said.resume)


main()
