# SPDX-License-Identifier: Apache-2.0
# pilot_parts.sh: what pilot_engine.sh and pilot_wrapped_run.sh share. Read by them in the repository's root, not run.
#
# They go in phases, since a lent machine may take no command of ten minutes: what one phase leaves in $out the next reads,
# and the run itself is in nobody's session.

gpuhours=${GPUHOURS:-build/gpuhours}
tokenizer=test/data/tiny_model/tokenizer.json # a token is a byte, and one after each row: ids of any model's vocabulary
export LD_LIBRARY_PATH="build:${LD_LIBRARY_PATH:-}"

make_rows() { # ROWS SHORTEST LONGEST MULTIPLE: lengths in tokens, multiples, spread evenly over the logarithm
    awk -v rows="$1" -v low="$2" -v high="$3" -v multiple="$4" 'BEGIN {
        srand(7)
        while (length(pool) < 65536 + high)
            pool = pool sprintf("%x ", int(rand() * 65536))
        for (i = 0; i < rows; i++) {
            size = low * (high / low) ^ rand()
            size = multiple * int(size / multiple + 0.5)
            printf "{\"text\": \"%s\"}\n", substr(pool, 1 + int(rand() * 65536), size - 1)
        }
    }'
}

number() { # FILE OBJECT KEY, of a document with a member on each line
    awk -v object="\"$2\": {" -v key="\"$3\":" '
        index($0, object) { inside = 1 }
        inside && index($0, key) { sub(/.*: /, ""); sub(/,$/, ""); print; exit }' "$1"
}

overhead() { # FILE NAME: seconds that a plan expects of it
    awk -v name="\"name\": \"$2\"" '
        index($0, "\"overheads\": [") { inside = 1 }
        inside && index($0, name) { found = 1 }
        found && index($0, "\"seconds\":") { sub(/.*: /, ""); print; exit }' "$1"
}

calculate() { # EXPRESSION
    awk "BEGIN { printf \"%.9g\", $1 }"
}

start_apart() { # NAME COMMAND…: goes on when this shell and its session end; $out/NAME.end then has begin, end and code
    name=$1
    shift
    rm -f "$out/$name.end" "$out/$name.pid"
    setsid nohup sh -c '
        echo $$ >"$0.pid"
        began=$(date +%s.%N) code=0
        "$@" || code=$?
        echo "$began $(date +%s.%N) $code" >"$0.part"
        mv "$0.part" "$0.end"' "$out/$name" "$@" >"$out/$name.txt" 2>&1 </dev/null &
    while [ ! -s "$out/$name.pid" ]; do sleep 0.1; done
}

wait_for() { # NAME: WAIT_SECONDS at most, less than a command may take; exits with 3 if it is to be called again
    left=${WAIT_SECONDS:-560}
    while [ ! -e "$out/$1.end" ]; do
        if ! kill -0 "$(cat "$out/$1.pid")" 2>/dev/null && [ ! -e "$out/$1.end" ]; then
            echo "$1 was ended by somebody else:" && tail -5 "$out/$1.txt"
            exit 1
        fi
        [ "$left" -gt 0 ] || { echo "$1 still runs; call finish again" && exit 3; }
        sleep 1
        left=$((left - 1))
    done
    read -r began ended code <"$out/$1.end"
    [ "$code" -eq 0 ] || { echo "$1: exit code $code" && tail -20 "$out/$1.txt" && exit 1; }
    wall_seconds=$(calculate "$ended - $began")
}

run_phase() { # the one that was asked for, or all
    if [ "$phase" = all ]; then # no &&, inside which set -e sleeps
        pilot
        start
        finish
    else
        $phase
    fi
}
