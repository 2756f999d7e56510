# SPDX-License-Identifier: Apache-2.0
# What work units cannot do is said in one sentence; a bad row has its place in the file, not in the unit.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $GPUHOURS in /*) program=$GPUHOURS ;; *) program=$PWD/$GPUHOURS ;; esac
example=$PWD/data/example.jsonl
cd "$work" || exit
head -60 "$example" >a.jsonl
try() {
    "$program" "$@" --ledger off --quiet >said 2>&1 </dev/null
    echo "exit $?: $(sed 's/[0-9a-f]\{32\}/KEY/g' said | head -1)"
}
try profile a.jsonl --shard 1/2
try profile a.jsonl --units u --shard 3/2
try profile a.jsonl --units u --unit-size 0
try profile a.jsonl --units a.jsonl
try profile - --units u
try profile a.jsonl --units u --merge
try profile --merge .
for name in SLURM_ARRAY_TASK_ID JOB_COMPLETION_INDEX RANK PMI_RANK OMPI_COMM_WORLD_RANK SLURM_PROCID; do unset $name; done
try profile a.jsonl --units u --shard auto
export JOB_COMPLETION_INDEX=1
try profile a.jsonl --units u --shard auto
try profile a.jsonl --units u --unit-size 5KB --shard auto/2
unset JOB_COMPLETION_INDEX
try profile --merge u
echo "{{ strftime_now('%Y') }}{% for m in messages %}{{ m['content'] }}{% endfor %}" >dated.jinja
try profile a.jsonl --units dated --template dated.jinja
try profile a.jsonl --units dated --template dated.jinja --date 2026-11-16 --out dated.json
try profile a.jsonl --units u --unit-size 6KB --shard 1/1
try profile a.jsonl --units u --unit-size 5KB --labels completion --shard 1/1
try profile a.jsonl --units u --unit-size 5KB --shard 1/1
try profile --merge u --stack axolotl
set -- u/*.unit
cp "$1" kept
cp "$2" "$1"
try profile --merge u
mv kept "$1"
for result in u/*.unit; do printf 'xyz' | dd of="$result" bs=1 seek=20 conv=notrunc 2>/dev/null; done
try profile --merge u
echo "{" >u/units.json
try profile --merge u
{ cat a.jsonl; echo '{"broken": '; } >b.jsonl
try profile b.jsonl --units b --unit-size 5KB
try profile b.jsonl
