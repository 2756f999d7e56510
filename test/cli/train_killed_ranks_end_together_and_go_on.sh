# SPDX-License-Identifier: Apache-2.0
# SIGKILL to a rank or to what started them: nobody hangs, nobody is left, one line says who was killed.
# RANK_KILLS=20 kills more often.
case $GPUHOURS in */san/*) kills=1 ;; *) kills=3 ;; esac
sh test/faults/kills ranks "${RANK_KILLS:-$kills}" "${RANK_SEED:-7}" 2>/dev/null | sed 's/^[0-9]* kills/N kills/; s/; [0-9]* runs/; N runs/'
