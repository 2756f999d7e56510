# SPDX-License-Identifier: Apache-2.0
# Two ranks of Open MPI's mpirun train as one rank does. Killing one ends both; a run whose ranks are told to stop saves and
# goes on, to the bits of one that nobody stopped.
command -v mpirun >/dev/null || { echo "mpirun is not installed"; exit 77; }
mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "mpirun is not Open MPI's"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 GPUHOURS_GROUP_PORT=$((20000 + $$ % 12000))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
two() { timeout 60 mpirun -n 2 --oversubscribe --bind-to none --mca btl_base_warn_component_unused 0 "$@"; }
two true >"$work/said" 2>&1 || { echo "mpirun starts nothing here: $(head -3 "$work/said" | tr '\n' ' ')"; exit 77; }
asked="train --device cpu --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --quiet
    --labels completion --context 64 --accumulation 4 --epochs 20 --rate 0.003 --rank 4 --save-every 2 --ledger off --out $work"
"$GPUHOURS" $asked/one >/dev/null || echo "one rank cannot train"
two "$GPUHOURS" $asked/two >/dev/null 2>"$work/said" || cat "$work/said"
paste "$work/one/metrics.jsonl" "$work/two/metrics.jsonl" | awk -F'"loss":' '
    { a = $2 + 0; b = $3 + 0; d = (a - b) / a; if (d < 0) d = -d; if (d > worst) worst = d }
    END { print NR " steps, " (worst < 1e-6 ? "same losses" : "losses differ by " worst) }'

ranks() { # the processes of a run that mpirun started
    for pid in $(grep -alzx "$work/$1" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3); do
        grep -aqz '^OMPI_COMM_WORLD_RANK=' "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done
}
begin() { # in the background, until it has trained some steps
    touch "$work/begun"
    two "$GPUHOURS" $asked/stopped >/dev/null 2>"$work/said" &
    for i in $(seq 600); do
        [ -z "$(find "$work/stopped/metrics.jsonl" -newer "$work/begun" -size +2 2>/dev/null)" ] || break
        sleep 0.1
    done
}
begin
kill -KILL "$(ranks stopped | tail -1)"
wait $! || echo "one was killed: mpirun fails"
for i in $(seq 600); do [ "$(ranks stopped)" ] || break; sleep 0.1; done
[ "$(ranks stopped)" ] || echo "the other has ended"
begin # goes on
kill -TERM $(ranks stopped)
wait $! || echo "told to stop: $(grep -o 'stopped at step' "$work/said") and saved"
two "$GPUHOURS" $asked/stopped >/dev/null 2>"$work/said" || cat "$work/said"
cmp "$work/two/adapter_model.safetensors" "$work/stopped/adapter_model.safetensors" && echo "the same bits"
