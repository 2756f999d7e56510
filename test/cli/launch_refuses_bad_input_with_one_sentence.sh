# SPDX-License-Identifier: Apache-2.0
# Each of these ends with one sentence that says what to do.
. test/cli/launch.inc
try() { "$program" launch "$@" 2>&1 >/dev/null | sed "s|$work|WORK|"; }
try
try --plan none.json
try --plan - -- x </dev/null
echo '{"kind": "plan", "configuration": {"model": "m", "gpu": "h100", "gpus": 8}}' >old.json
try --plan old.json -- x
try --plan plan.json extra
try --plan plan.json --to pbs -- x
try --plan plan.json --to slrum -- x
try --plan plan.json --to kubernetes -- x
try --plan plan.json
try --plan plan.json --to k8s -- x
try --plan plan.json --to slurm --partition 'a b' -- x
try --plan plan.json --to slurm --env 'A=1' -- x
try --plan plan.json --to slurm -- sh -c 'HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz train'
try --plan plan.json --to slurm --setup 'login hf_abcdefghijklmnopqrstuvwxyz' -- x
try --plan plan.json --to sky --offer nobody/none --today 2026-11-01 -- x | sed 's|such as .*|such as …|'
try --plan plan.json --to dstack --offer paperspace/H100x8 --today 2026-11-01 -- x | sed 's|--offer .*|--offer …|'
try --plan plan.json --to sky --output runs --offer plan -- x
