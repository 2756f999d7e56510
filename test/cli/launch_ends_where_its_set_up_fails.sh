# SPDX-License-Identifier: Apache-2.0
# bash runs the lines of every file that has them; srun is a stand-in that starts its command.
. test/cli/launch.inc
mkdir bin
printf '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n' >bin/srun
chmod +x bin/srun
PATH=$work/bin:/usr/bin:/bin
lines() { # of the shell, in a file of YAML
    sed -n '/^ *- |$/,/^ *exec /p' "$1" | sed 1d
}
for to in script slurm k8s dstack; do
    for setup in 'cd /nowhere 2>/dev/null' 'export WORD=trained'; do
        "$program" launch --plan plan.json --to $to --image i --quiet --setup "$setup" -- sh -c 'echo "$WORD"' >job
        case $to in k8s | dstack) lines job >job.sh ;; *) cp job job.sh ;; esac
        sed -i 's|/output|output|' job.sh
        said=$(bash job.sh 2>&1)
        echo "$to: exit $?, $said"
    done
done
