# SPDX-License-Identifier: Apache-2.0
"""A fine-tune with transformers' Trainer and PEFT that writes when each of its steps ended; for pilot_wrapped.sh.

    python3 bench/gpu/pilot_wrapped.py train SHAPE ROWS WIDTH STEPS STAMPS.jsonl
    python3 bench/gpu/pilot_wrapped.py compare SHAPE ROWS WIDTH STAMPS.jsonl PILOT.json MEMORY.txt
    python3 bench/gpu/pilot_wrapped.py judge FOLDER WALL_SECONDS

"train" fine-tunes random weights on random tokens: LoRA of rank 16 on all linears, bf16, two processes that load data.
"compare" prints one JSON line: the pilot's rate against that of the trainer's own time stamps over the same steps (without
those of more than 1.5 medians, and with them), and the pilot's peak memory against the largest figure (MiB) that nvidia-smi printed into MEMORY.txt.
"judge" is for pilot_wrapped_run.sh, which says what it compares.
"""
import inspect
import json
import sys
import time

def train(shape, rows, width, steps, stamps):
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from shapes import SHAPES, build

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return rows * steps

        def __getitem__(self, index):
            maker = torch.Generator().manual_seed(index)
            ids = torch.randint(0, SHAPES[shape]["vocab_size"], (width,), generator=maker)
            return {"input_ids": ids, "labels": ids}

    class Stamps(TrainerCallback):
        def __init__(self):
            self.out = open(stamps, "w", buffering=1)

        def on_step_end(self, args, state, control, **rest):
            self.out.write(json.dumps({"step": state.global_step, "seconds": time.monotonic()}) + "\n")

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(shape, device=device)
    wanted = dict(output_dir=stamps + ".out", per_device_train_batch_size=rows, max_steps=steps, learning_rate=1e-4,
                  logging_steps=10, save_strategy="no", report_to="none", dataloader_num_workers=2,
                  bf16=device == "cuda", optim="adamw_torch_fused" if device == "cuda" else "adamw_torch",
                  remove_unused_columns=False, disable_tqdm=False)
    known = inspect.signature(TrainingArguments.__init__).parameters
    arguments = TrainingArguments(**{name: value for name, value in wanted.items() if name in known})
    Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[Stamps()]).train()


def compare(shape, rows, width, stamps, pilot, memory):
    ends = [json.loads(line)["seconds"] for line in open(stamps) if line.endswith("\n")]
    pilot = json.load(open(pilot))
    first, count = pilot["warmup_steps"], pilot["steps"]
    steady = ends[first:first + count + 1]
    seconds = [after - before for before, after in zip(steady, steady[1:])]
    middle = sorted(seconds)[len(seconds) // 2]
    ordinary = [second for second in seconds if second <= 1.5 * middle]
    own = rows * width * len(ordinary) / sum(ordinary)
    plain = rows * width * len(seconds) / sum(seconds)
    rate = pilot["tokens_per_second"]
    shown = [float(line.split()[0]) for line in open(memory) if line.split() and line.split()[0].isdigit()]
    peak = max(shown) * 2 ** 20 if shown else float("nan")
    print(json.dumps(dict(
        shape=shape, rows=rows, width=width, steps=len(ends), warmup_steps=first, measured_steps=count,
        pilot_tokens_per_s=rate["mean"], low=rate["low"], high=rate["high"],
        trainer_tokens_per_s=round(own, 1), trainer_with_stalls_tokens_per_s=round(plain, 1),
        rate_off_percent=round(100 * (rate["mean"] / own - 1), 2),
        pilot_peak_gib=round((pilot["peak_bytes"] or 0) / 2 ** 30, 3), nvidia_smi_peak_gib=round(peak / 2 ** 30, 3),
        memory_off_percent=round(100 * ((pilot["peak_bytes"] or 0) / peak - 1), 2),
        gpu=pilot["gpu"], stalls=pilot["stalls"], startup_seconds=pilot["apart"]["startup_seconds"],
        elapsed_seconds=pilot["elapsed_seconds"])), flush=True)


def judge(folder, wall_seconds):
    def read(name):
        return json.load(open(f"{folder}/{name}"))

    def range_of(low, mid, high):
        return dict(p10=round(low, 2), p50=round(mid, 2), p90=round(high, 2))

    def verdict(actual, forecast):
        return dict(forecast_seconds=forecast, actual_seconds=round(actual, 2),
                    actual_over_forecast=round(actual / forecast["p50"], 4),
                    held=forecast["p10"] <= actual <= forecast["p90"])

    def steps_of(plan):
        planned, rate = plan["workload"]["processed_tokens"], plan["tokens_per_second"]
        beside = sum(part["seconds"] for part in plan["overheads"] if part["name"] in ("new widths", "data stalls"))
        return beside, range_of(*(planned / rate[p] + beside for p in ("p90", "p50", "p10")))

    plan, pilot = read("after.json"), read("pilot.json")
    stamps = [json.loads(line) for line in open(f"{folder}/run/stamps.jsonl")]
    seconds = stamps[-1]["seconds"] - stamps[0]["seconds"]
    tokens = stamps[-1]["tokens"] - stamps[0]["tokens"]
    each = sorted((b["seconds"] - a["seconds"]) / max(1, b["tokens"] - a["tokens"]) for a, b in zip(stamps, stamps[1:]))
    slow = sum((b["seconds"] - a["seconds"]) for a, b in zip(stamps, stamps[1:])
               if b["seconds"] - a["seconds"] > 1.5 * each[len(each) // 2] * (b["tokens"] - a["tokens"]))
    beside, forecast = steps_of(plan)
    wall = plan["wall_hours"]
    print(json.dumps(dict(
        model=plan["configuration"]["model"], pilot_tokens_per_second=round(pilot["tokens_per_second"]["mean"], 1),
        pilot_steady=pilot["steady"], pilot_elapsed_seconds=round(pilot["elapsed_seconds"], 1),
        steps=len(stamps) - 1, planned_steps=plan["workload"]["steps"], tokens=tokens,
        planned_tokens=plan["workload"]["processed_tokens"], tokens_per_second=round(tokens / seconds, 1),
        forecast_tokens_per_second=round(plan["tokens_per_second"]["p50"], 1), in_forecast_beside_steps_seconds=round(beside, 2),
        slow_steps_seconds=round(slow, 2), without_pilot_seconds=steps_of(read("before.json"))[1],
        **verdict(seconds, forecast),
        whole=verdict(wall_seconds, range_of(*(3600 * wall[p] for p in ("p10", "p50", "p90")))))), flush=True)


def main():
    if sys.argv[1] == "judge":
        return judge(sys.argv[2], float(sys.argv[3]))
    command, shape, rows, width = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if command == "train":
        train(shape, rows, width, int(sys.argv[5]), sys.argv[6])
    else:
        compare(shape, rows, width, *sys.argv[5:8])


if __name__ == "__main__":
    main()
