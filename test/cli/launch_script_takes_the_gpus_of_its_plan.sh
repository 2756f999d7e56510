# SPDX-License-Identifier: Apache-2.0
# A script on a machine of four GPUs, with a plan of two: the trainer sees two; with too few it ends with a sentence.
. test/cli/launch.inc
sed -i 's/"gpus": 8/"gpus": 2/' plan.json
mkdir bin
printf '%s\n' '#!/bin/sh' 'for i in 0 1 2 3; do echo "GPU $i: NVIDIA H100"; done' >bin/nvidia-smi
chmod +x bin/nvidia-smi
PATH=$work/bin:/usr/bin:/bin
unset CUDA_VISIBLE_DEVICES
"$program" launch --plan plan.json --to script --quiet -- bash -c 'echo "sees $CUDA_VISIBLE_DEVICES"' >job.sh
bash job.sh
CUDA_VISIBLE_DEVICES=2,3 bash job.sh
CUDA_VISIBLE_DEVICES=1,2,3 bash job.sh
CUDA_VISIBLE_DEVICES=3 bash job.sh 2>&1; echo "exit $?"
printf '%s\n' '#!/bin/sh' 'echo "GPU 0: NVIDIA H100"' >bin/nvidia-smi
bash job.sh 2>&1; echo "exit $?"
