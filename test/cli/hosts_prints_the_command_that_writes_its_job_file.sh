# SPDX-License-Identifier: Apache-2.0
# The line below the table, run as it is, writes the job file of the recommended place.
. test/cli/launch.inc
cp plan.json "my plan.json"
hosts() { "$program" hosts --plan "my plan.json" --today 2026-11-01 --deadline 40h --gpus 8 "$@" 2>/dev/null; }
line=$(hosts --rows 3 | tail -1)
echo "$line" | sed 's/--offer .* --/--offer … --/'
gpuhours() { "$program" "$@"; }
eval "${line% COMMAND} x" 2>/dev/null >job.yaml
best=$(hosts --json | tr -d '\n' | sed 's/.*"recommended": \([0-9]*\),.*/\1/')
instance=$(hosts --json | grep '^      "instance": ' | sed -n "$((best + 1))s/.*: \"\(.*\)\",/\1/p")
grep -q "instance_type: $instance" job.yaml && echo "the job file names the best choice"
# A job that is not that of the plan has no such line, and a job file has no rows.
hosts --method full | grep -c 'gpuhours launch'
"$program" launch --plan plan.json --to script --rows 3 -- x || echo "exit $?"
