#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# record_logs.sh [OUT]: what transformers' Trainer really prints and writes, for test/data/logs.
#
# A tiny model for 60 steps on a terminal of 100 columns: a line every 5 steps, an evaluation every 20, a save every 30.
# Then once more from the save at 30, and once without bars. OUT gets 8 files at most:
#
#     trainer.log, .times            bytes as they came and the seconds between them (script of util-linux)
#     trainer_resumed.log, .times
#     trainer_plain.log              standard output and error in a pipe, bars off
#     trainer_state.json             of the last save
#     events.out.tfevents.*          where tensorboard is installed
#     versions.txt
set -eu
cd "$(dirname "$0")/../.."
out=${1:-build/record_logs}
python=${PYTHON:-python3}
trainer=${TRAINER:-$python bench/gpu/rows_trainer.py}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. bench/gpu/pilot_parts.sh
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 TENSORBOARD_LOGGING_DIR="$work/run/runs"
mkdir -p "$out"
rm -f "$out"/trainer* "$out"/events* "$out/versions.txt"
make_rows 320 64 512 1 >"$work/rows.jsonl"
same="--rows $work/rows.jsonl --shape ${SHAPE:-tiny} --micro-batch 8 --epochs 2 --steps 60 --log-every 5"

on_terminal() { # NAME COMMAND: without the lines that script itself writes
    code=0
    script -q -e -c "stty cols 100 rows 30; exec $2" -T "$out/$1.times" "$work/$1" >/dev/null </dev/null || code=$?
    tail -n +2 "$work/$1" | head -c "$(awk '{ bytes += $2 } END { print bytes }' "$out/$1.times")" >"$out/$1.log"
    echo "$1: exit code $code, $(wc -c <"$out/$1.log") bytes"
}

on_terminal trainer "$trainer $same --out $work/run --evaluate-every 20 --save-every 30 --tensorboard"
cp "$work"/run/checkpoint-60/trainer_state.json "$out" || true
find "$work/run" -name 'events.out.tfevents.*' -exec cp {} "$out" \; || true
on_terminal trainer_resumed "$trainer $same --out $work/resumed --save-every 30 --resume $work/run/checkpoint-30"
$trainer $same --out "$work/plain" --evaluate-every 20 --save-every 30 --bars off >"$out/trainer_plain.log" 2>&1 ||
    echo "trainer_plain: exit code $?"
"$python" - >"$out/versions.txt" <<'VERSIONS' || true
import importlib.metadata as metadata
import platform
print("python", platform.python_version())
for name in ("torch", "transformers", "peft", "accelerate", "tqdm", "tensorboard"):
    try:
        print(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        print(name, "is not installed")
VERSIONS
ls -l "$out"
