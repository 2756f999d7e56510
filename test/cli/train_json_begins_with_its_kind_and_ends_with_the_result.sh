# SPDX-License-Identifier: Apache-2.0
# Lines of JSON: what is trained, an object per step with the keys it always had, the result. A run that is over has no steps left.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for start in 1 2; do
    "$GPUHOURS" train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --labels completion --context 64 \
        --held-out 0.25 --max-steps 2 --quiet --json --ledger off --out "$work/out" 2>/dev/null >"$work/lines"
    python3 - "$work/lines" "$work" <<'P'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
for line in lines:
    print(*[f"{k}={v}" for k, v in line.items() if k not in ("bytes", "wall_hours", "gpu_hours", "out") and "loss" not in k and k != "norm"])
steps = lines[1:-1]
print("losses:", all(line["loss"] > 0 for line in steps), lines[-1]["last_loss"] == (steps[-1]["loss"] if steps else None),
      lines[-1]["best_held_out_loss"] > 0, lines[-1]["out"] == sys.argv[2] + "/out")
P
done
