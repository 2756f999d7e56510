# SPDX-License-Identifier: Apache-2.0
# kubectl decodes the Job and its Service into its own types, and writes back every key that it knows. Its
# --dry-run=client asks a server for the schema; commands with --local do not.
. test/cli/launch.inc
command -v kubectl >/dev/null || { echo "kubectl is not installed"; exit 77; }
"$program" launch --plan plan.json --to k8s --image mine/trainer:1 --data rows --output results --env HF_TOKEN --gpus 16 \
    --offer azure/Standard_ND96isr_H100_v5/spot --today 2026-11-01 --partition team --quiet -- torchrun train.py 'a: b' >job.yaml
sed '/^---$/,$d' job.yaml >service.yaml
sed -i '1,/^---$/d' job.yaml
kubectl set env --local -f job.yaml CHECKED=yes -o yaml >read.yaml || exit
kubectl set selector --local -f service.yaml job-name=llama -o yaml >>read.yaml || exit
keys() { cat "$@" | grep -v '^ *#' | grep -ohE '^[^"$]*[A-Za-z./-]+:( |$)' | tr -d ' -' | sort -u; }
keys job.yaml service.yaml >ours
keys read.yaml >theirs
# completionMode (1.21) and podFailurePolicy (1.26) are younger than Debian's kubectl 1.20
comm -23 ours theirs | grep -vxE '(completionMode|podFailurePolicy|rules|action|onPodConditions|type|status):' ||
    echo "every key of ours is one of kubectl's"
sed 's/completions: 2/completions: two/' job.yaml >bad.yaml
kubectl set env --local -f bad.yaml CHECKED=yes -o yaml >/dev/null 2>&1 || echo "a wrong type is refused"
