# SPDX-License-Identifier: Apache-2.0
# bash runs the files; srun is a stand-in that starts its command. The trainer prints each word that it gets.
. test/cli/launch.inc
mkdir bin
printf '#!/bin/sh\nfor word; do printf "%%s\\0" "$word"; done\n' >bin/trainer
printf '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n' >bin/srun
chmod +x bin/trainer bin/srun
PATH=$work/bin:/usr/bin:/bin # without gpuhours: the run goes on unwatched
hostile() { # COMMAND...: with words that shells and YAML take for something else
    "$@" '' ' ' 'a  b' "it's" '"q"' '$HOME' '$(touch oops)' '`touch oops`' 'a;touch oops' 'line
break
' "$(printf 'tab\there')" 'back\slash' '*' '{a,b}' '~' '#SBATCH --nodes=99' '!x' '-n' '--' ': |' '- x' '&a' "$(printf '\377\001\033[31m')" \
        "'''" "\\'" 'é 漢 😀' 'EOF' '}' 'task' "$(printf '\302\205\342\200\250')"
}
hostile trainer >expected
for to in slurm script; do
    hostile "$program" launch --plan plan.json --to $to --quiet -- trainer >job.sh
    bash -n job.sh && bash job.sh >got 2>said
    cmp expected got && echo "$to: $(tr -cd '\0' <got | wc -c) words are the same"
    grep -c '^#SBATCH --nodes' job.sh
done
[ -e oops ] && echo "a word was run"
echo "exit of the trainer:"
printf '#!/bin/sh\nexit 7\n' >bin/trainer
"$program" launch --plan plan.json --to slurm --quiet -- trainer >job.sh
bash job.sh; echo $?
