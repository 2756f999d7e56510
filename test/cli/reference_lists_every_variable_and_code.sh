# SPDX-License-Identifier: Apache-2.0
# The tables of environment variables and exit codes have what the source has, and nothing more.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    grep -rhoE 'getenv\("[A-Z_]+"\)' src | sed 's/.*"\(.*\)".*/\1/'
    sed -n 's/^#define PRODUCT_KERNELS "\(.*\)"/\1/p' src/train/cpu/product.h
    sed -n '/variables\[\]/s/"\([A-Z_]*\)"/\n\1\n/gp' src/cli/terminal/print.c | grep -E '^[A-Z_]+$'
    # Of each launcher what tells that it is there; of our own all but the one that only --ranks sets.
    sed -n 's/^.* \.\(rank\|size\|mark\) = "\([A-Z_]*\)".*/\2/p' src/host/launcher.c
    sed -n '/LISTENER/d; s/^#define GROUP_PLACE_[A-Z]* "\(.*\)".*/\1/p' src/train/group/group_place.h
    grep -hoE '"AWS_[A-Z]+_?[A-Z_]*3?"' src/remote/credentials.c | tr -d '"'
    sed -n '/arrays\[\]/,/^};/s/"\([A-Z_]*\)"/\n\1\n/gp' src/host/shard.c | grep -E '^[A-Z_]+$'
} | sort -u >"$work/source"
"$GPUHOURS" help environment | sed -n 's/^  \([A-Z_][A-Z_0-9]*\).*/\1/p' | sort -u >"$work/help"
diff "$work/source" "$work/help" && echo "variables agree"
sed -n '/^enum err {/,/^}/s/^ *\([A-Z_]*\) = \([0-9]*\),.*/\2/p; /^enum err {/,/^}/s/^ *ERR_[A-Z_]* = \([0-9]*\).*/\1/p' src/base/error.h |
    sort -un >"$work/codes"
"$GPUHOURS" help exit-codes | sed -n 's/^  \([0-9]*\) .*/\1/p' | sort -un | diff - "$work/codes" && echo "codes agree"
