# SPDX-License-Identifier: Apache-2.0
# parts.sh: what experts.sh, group.sh and pairs.sh share: parts that end by themselves, and verdicts. Read by them in the
# repository's root, not run.

program=${GPUHOURS:-build/gpuhours} device=${DEVICE:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'wait; exit 143' TERM # ranks in the background were ended too
export LD_LIBRARY_PATH=build:${LD_LIBRARY_PATH:-}
failures=0 part_began=$(date +%s)

# Runs the parts that PARTS names, or all, each in a process of its own: one that hangs is ended and counts as missed, and the next
# begins. PART_S is the limit of every part instead of its own.
run_parts() { # NAME:SECONDS...
    if [ -n "${PART:-}" ]; then
        "$PART"
    else
        for part in ${PARTS:-$(for each; do echo "${each%:*}"; done)}; do
            limit=${PART_S:-$(for each; do [ "${each%:*}" != "$part" ] || echo "${each#*:}"; done)}
            part_began=$(date +%s)
            echo "$part"
            PART=$part timeout -k 5 "${limit:?"$part" is no part}" sh "$0"
            case $? in
                0) ;;
                124|137) verdict no "$part ends within $limit s" ;;
                *) failures=$((failures + 1)) ;;
            esac
            echo "  $(($(date +%s) - part_began)) s"
        done
    fi
    [ $failures = 0 ]
}

verdict() { # HOLDS SENTENCE
    if [ "$1" = yes ]; then echo "  met    $2"; else echo "  MISSED $2"; failures=$((failures + 1)); fi
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { print a + 0 == a && a <= b ? "yes" : "no" }'; } # no, if A is no number
losses() { differs loss "$1" "$2"; }
norms() { differs norm "$1" "$2"; } # of gradients
differs() { # FIELD OUT OUT: its largest relative difference, from the second's first step on; 9 without any
    field=$1
    shift
    awk -F'"step":|"'"$field"'":' '{ s = $2 + 0; l = $3 + 0 } NR == FNR { a[s] = l; next }
        { if (!(s in a)) next; d = (a[s] - l) / a[s]; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
        END { print n ? worst + 0 : 9 }' "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" 2>/dev/null || echo 9
}
hold_operations() { # reads lines of a kernel of experts, or -, and a word
    while read -r kernel word; do
        holds=no by=
        [ "$kernel" = - ] || by=" by kernel $kernel"
        timeout --foreground -k 5 40 build/cuda-parity --experts "${kernel#-}" "$word" >"$work/said" 2>&1 && holds=yes
        sed '1d; s/^/  /' "$work/said"
        verdict $holds "operations of \"$word\"$by are the CPU's, and have the same bits twice"
    done
}
