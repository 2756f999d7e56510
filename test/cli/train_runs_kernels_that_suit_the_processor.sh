# SPDX-License-Identifier: Apache-2.0
# An OpenBLAS older than the processor takes it for one that has SSE alone: train begins again with better kernels. What the
# user set stays, and the trainer under a pilot sees nothing of it.
skip() {
    echo "$1"
    exit 77
}
unset OPENBLAS_CORETYPE # the shell may have it
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
core() { # [VARIABLE=VALUE]
    env OPENBLAS_VERBOSE=2 "$@" "$GPUHOURS" train --random-weights --model test/data/tiny_model --rank 4 --context 64 --quiet \
        --data test/data/tiny_model/rows.jsonl --max-steps 1 --ledger off --out "$work/adapter" 2>&1 | sed -n 's/^Core: //p' | tail -1
    rm -rf "$work/adapter"
}
grep -qw avx2 /proc/cpuinfo || skip "the processor has no AVX2"
ours=$(core)
[ "$ours" ] || skip "OpenBLAS does not say which kernels it runs"
[ "$ours" = Prescott ] && echo "train runs SSE" || echo "train runs more than SSE"
echo "as set: $(core OPENBLAS_CORETYPE=Prescott)"
echo "a pilot's trainer: $("$GPUHOURS" pilot --quiet --ledger off --tokens-per-step 1 -- \
    sh -c 'echo "OPENBLAS_CORETYPE is ${OPENBLAS_CORETYPE:-not set}"' 2>/dev/null | grep -a -o 'OPENBLAS.*set')"
