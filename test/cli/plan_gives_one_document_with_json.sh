# SPDX-License-Identifier: Apache-2.0
# Standard output is one JSON document, and nothing else.
command -v node >/dev/null || { echo "there is no node to read it"; exit 77; }
"$GPUHOURS" plan --model llama-3.1-8b --tokens 21.4M --gpu h100 --gpus 8 --json 2>&1 |
    node -e '
        const plan = JSON.parse(require("fs").readFileSync(0, "utf8"));
        console.log(plan.kind, plan.version, plan.memory.fits, plan.configuration.gpus);
        console.log(Object.keys(plan.gpu_hours).join(" "));'
