# SPDX-License-Identifier: Apache-2.0
# plan --json and hosts --plan: the same job, on the plan's own GPUs for the plan's own hours.
command -v node >/dev/null || { echo "there is no node to read it"; exit 77; }
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
"$GPUHOURS" plan --model llama-3.1-8b --tokens 21.4M --epochs 3 --gpu h100 --gpus 8 --json \
    >"$folder/plan.json"
"$GPUHOURS" hosts --plan "$folder/plan.json" --gpu h100 --gpus 8 --provider aws --kind on-demand \
    --today 2026-11-15 --json >"$folder/hosts.json"
node -e '
    const read = name => JSON.parse(require("fs").readFileSync(process.argv[1] + name, "utf8"));
    const plan = read("/plan.json"), hosts = read("/hosts.json");
    const row = hosts.rows.find(r => r.instance == "p5.48xlarge");
    console.log(hosts.kind, hosts.version, row.gpus, row.instances);
    const ratio = row.run_hours.p50 / plan.wall_hours.p50;
    console.log(Math.abs(ratio - 1) < 0.03 ? "the same hours" : "other hours: " + ratio);
    ' "$folder"
