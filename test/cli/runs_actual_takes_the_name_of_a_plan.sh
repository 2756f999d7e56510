# SPDX-License-Identifier: Apache-2.0
# A name stands for its newest plan; show and compare take names too. A run on a CPU has no GPU hours, and shows its loss.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs() { "$GPUHOURS" runs --ledger "$work/ledger.sqlite" "$@" 2>&1; }
for rank in 8 16; do
    "$GPUHOURS" plan --ledger "$work/ledger.sqlite" --name night --model llama-3.1-8b --tokens 21.4M --gpu h100 --rank $rank \
        --search off >/dev/null
done
runs actual night --gpu-hours 1.1 | grep -E '^(id|name|measures)' | sed 's/ of [0-9-]*$//'
runs show night | grep -E '^(id|kind|name)'
runs actual day --gpu-hours 1
runs delete night
echo "-- on a CPU"
cat >"$work/export.json" <<'END'
{"kind": "runs", "version": 1, "runs": [{"uid": "0123456789abcdef", "kind": "run", "at": "2026-11-15T11:20:05Z",
 "model": "tiny", "gpu": "cpu", "gpus": 1, "actual_wall_hours": 0.5, "actual_gpu_hours": 0.5,
 "document": {"kind": "run", "version": 1, "loss": 1.25}}]}
END
"$GPUHOURS" runs --ledger "$work/cpu.sqlite" import "$work/export.json"
"$GPUHOURS" runs --ledger "$work/cpu.sqlite" show 1 | grep -E 'hours|loss'
