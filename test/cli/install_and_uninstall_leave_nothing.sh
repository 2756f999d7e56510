# SPDX-License-Identifier: Apache-2.0
# Everything that install creates, uninstall removes; files of others stay. The installed program runs
# from its folder, and an older version's files go when a newer one is installed.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DESTDIR=$work/stage PREFIX=/opt/here PROGRAM=$GPUHOURS LIBRARY= PAGE=
mkdir -p "$DESTDIR/opt/here/share/doc/other"
: > "$DESTDIR/opt/here/share/doc/other/file"
before=$(find "$work" | sort)

tools/install install
"$DESTDIR/opt/here/bin/gpuhours" show gpus --json | head -c 10
echo
(cd "$DESTDIR/opt/here" && find bin share/gpuhours share/doc/gpuhours/LICENSE -type f | sort)
grep -c "$work" "$DESTDIR/opt/here/share/gpuhours/installed" # the list holds no staging folder

tools/install install # twice is as once
tools/install uninstall
[ "$(find "$work" | sort)" = "$before" ] && echo "nothing is left" || find "$work" | sort

tools/install uninstall 2>&1 | sed "s|$work||g"

# An installed program looks for the CUDA library in lib/gpuhours beside its bin.
echo "no library" > "$work/library"
LIBRARY=$work/library tools/install install
$GPUHOURS plan --tokens 100k --model smollm2-135m --gpu h100 --ledger off --json --quiet > "$work/plan.json"
"$DESTDIR/opt/here/bin/gpuhours" pilot --plan "$work/plan.json" --device cuda --ledger off 2>&1 |
    grep -o '/lib/gpuhours/libgpuhours-cuda.so: file too short'
