# SPDX-License-Identifier: Apache-2.0
# On the plan's own GPUs hosts places the plan's run, for its hours: with what a pilot measured, lengths of data, options given.
# Elsewhere the micro-batch is kept where it was given, and the global batch always.
command -v node >/dev/null || { echo "there is no node to read it"; exit 77; }
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
place() { # of plan.json
    node -p 'const c = JSON.parse(require("fs").readFileSync(process.argv[1])).configuration; `--gpu ${c.gpu} --gpus ${c.gpus}`' \
        "$folder/plan.json"
}
compare() { # NAME PLAN-OPTION...
    name=$1
    shift
    "$GPUHOURS" plan "$@" --ledger off --search off --quiet --json >"$folder/plan.json"
    # shellcheck disable=SC2046
    "$GPUHOURS" hosts --plan "$folder/plan.json" $(place) --kind on-demand --today 2026-11-15 --json >"$folder/own.json"
    "$GPUHOURS" hosts --plan "$folder/plan.json" --kind on-demand --today 2026-11-15 --json >"$folder/all.json"
    node -e '
        const [, folder, name] = process.argv;
        const read = file => JSON.parse(require("fs").readFileSync(`${folder}/${file}.json`, "utf8"));
        const plan = read("plan"), own = read("own"), all = read("all"), c = plan.configuration;
        const seconds = (list, kind) => list.find(x => x.name == kind).seconds;
        const near = (a, b, share) => Math.abs(a - b) <= share * Math.max(a, b) + 1e-6;
        const stored = /loading|saves|failures|failed/; // of the storage
        const kinds = plan.overheads.map(x => x.name).filter(kind => !stored.test(kind));
        const same = own.rows.filter(r => r.instances == c.nodes);
        const other = same.filter(r => r.time.micro_batch != c.micro_batch || r.time.parallel != c.parallel ||
            r.time.checkpointing != c.checkpointing ||
            kinds.some(kind => !near(seconds(r.time.seconds, kind), seconds(plan.overheads, kind), 1e-4)) ||
            !["p10", "p50", "p90"].every(p => near(r.run_hours[p], plan.wall_hours[p], 0.05)));
        console.log(name + ":", same.length > 1 && !other.length ? "the same run" : JSON.stringify(other[0]));
        if (plan.request.micro_batch)
            console.log("  rows other than given:", all.rows.filter(r => r.time && r.time.micro_batch != c.micro_batch).length);
        const most = Math.max(...all.rows.map(r => r.gpus || 0));
        console.log("  most GPUs:", most <= c.global_batch ? "no more than rows" : "too many");
        for (const said of all.advice.filter(x => /pilot/.test(x))) console.log("  " + said);
    ' "$folder" "$name"
}
node -e '
    const pilot = JSON.parse(require("fs").readFileSync("test/data/pilot/h200_8b_lora.json"));
    pilot.apart = { startup_seconds: 95, evaluation_seconds_per_token: 4e-5, evaluations: 3, first_evaluation_seconds: 9,
        evaluation_seconds: 30, evaluation_share: 0.05, saves: 3, save_seconds: 7 };
    pilot.stalls = { recurring_share: 0.12, recurring_error: 0.03 };
    console.log(JSON.stringify(pilot));
' >"$folder/pilot.json"
compare "a pilot" --pilot test/data/pilot/h200_8b_lora.json --tokens 21.4M
compare "a pilot that saw more" --pilot "$folder/pilot.json" --tokens 21.4M
compare "data" example --model llama-3.1-8b --epochs 30 --gpu h100 --gpus 1 --global-batch 64
compare "given options" --model llama-3.1-8b --tokens 21.4M --gpu h100 --gpus 8 --parallel fsdp --checkpointing full \
    --micro-batch 2
echo "a plan that does not fit"
"$GPUHOURS" plan --model llama-3.1-8b --method full --tokens 1M --gpu rtx-4090 --gpus 1 --search off --quiet \
    --json >"$folder/plan.json"
"$GPUHOURS" hosts --plan "$folder/plan.json" --kind on-demand --today 2026-11-15 --json |
    node -e 'let s = ""; process.stdin.on("data", d => s += d).on("end", () => console.log(JSON.parse(s).rows.length > 100))'
"$GPUHOURS" plan --model llama-3.1-8b --tokens 21.4M --gpu h100 --gpus 8 --parallel fsdp --search off --quiet \
    --json >"$folder/plan.json"
echo "another job than the plan's"
"$GPUHOURS" hosts --plan "$folder/plan.json" --context 1024 --micro-batch auto --gpu h100 --gpus 8 --today 2026-11-15 --json |
    node -e 'let s = ""; process.stdin.on("data", d => s += d).on("end", () => console.log(JSON.parse(s).rows[0].time.parallel))'
