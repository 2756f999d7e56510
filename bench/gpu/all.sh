#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every bar of the CUDA engine on one GPU, peers in the same run; ends in a table of measured, bar, met.
#
#     SKIP="peers curves" OUT=folder bench/gpu/all.sh      parts: build parity engine peers lengths shapes parity_hf curves costs sanitizer
#     PARTS="engine peers" bench/gpu/all.sh                these alone
#
# Leaves at most 10 files in $OUT (or build/gpu). The whole takes about 20 minutes; on a machine that is lent for less, run it
# in parts: engine and peers must be in the same.
#
# Not in it: pilots against the runs they forecast, three and ten minutes each, in phases (pilot_engine.sh, pilot_wrapped_run.sh);
# what a wrapped pilot measures against the trainer's own stamps (pilot_wrapped.sh); logs for the tests (record_logs.sh).
set -u
cd "$(dirname "$0")/../.."
export OUT=${OUT:-build/gpu}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
export LD_LIBRARY_PATH=build:${LD_LIBRARY_PATH:-} PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
export PATH=$PATH:/usr/local/cuda/bin
log=$OUT/all.log
: >"$log"

sanitizer() { # memory errors of every operation at small shapes
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not on this machine"; return 0; }
    compute-sanitizer --tool memcheck --print-limit 20 build/cuda-parity --small 2>&1
}
export -f sanitizer

part() { # part NAME SECONDS COMMAND…
    local name=$1 limit=$2 began=$SECONDS
    shift 2
    case " ${SKIP:-} " in *" $name "*) return ;; esac
    [ -n "${PARTS:-}" ] && case " $PARTS " in *" $name "*) ;; *) return ;; esac
    echo "=== $name" | tee -a "$log"
    timeout -k 5 "$limit" "$@" 2>&1 | tee -a "$log"
    echo "=== $name: exit ${PIPESTATUS[0]}, $((SECONDS - began)) s" | tee -a "$log"
}

part build 400 bench/gpu/check.sh
for name in engine peers lengths shapes parity_hf curves costs; do
    case " ${SKIP:-} " in *" $name "*) continue ;; esac
    [ -n "${PARTS:-}" ] && case " $PARTS " in *" $name "*) ;; *) continue ;; esac
    rm -f "$OUT/$name.jsonl"
done
part parity 120 bash -c 'build/cuda-parity >"$OUT/parity.log" 2>&1; rc=$?; tail -5 "$OUT/parity.log"; exit $rc'
part engine 400 bench/gpu/engine.sh
part peers 170 python3 bench/gpu/peers.py "$OUT/peers.jsonl" 150
part lengths 230 python3 bench/gpu/ratios.py lengths "$OUT/lengths.jsonl" 200
part shapes 560 python3 bench/gpu/ratios.py shapes "$OUT/shapes.jsonl" 480
part parity_hf 120 python3 bench/gpu/parity_hf.py "$OUT/parity_hf.jsonl" 90
part curves 115 python3 bench/gpu/curves.py "$OUT/curves.jsonl" 95
part costs 80 bench/gpu/costs.sh
part sanitizer 75 bash -c sanitizer
python3 bench/gpu/summary.py "$OUT" 2>&1 | tee -a "$log"
exit "${PIPESTATUS[0]}"
