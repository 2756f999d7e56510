# SPDX-License-Identifier: Apache-2.0
# In a bare tree with stand-ins for apt-get, npm, nvcc and gzip: what a dry run and INSTALL=0 may not
# call, what is detected again, what a failed command leaves, and the GPUs that are compiled for.
[ "$GPUHOURS" = build/gpuhours ] || { echo "once is enough: the plain build's"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/tree"
cp -r Makefile VERSION tools "$work/tree"
cd "$work/tree" || exit 1
unset MAKEFLAGS MAKELEVEL MFLAGS SOURCE_DATE_EPOCH ARCHS PTX CC CFLAGS CUDA INSTALL NVCC SAN WEB # make exports what it was given
stand_in() { # NAME LINE...: a command that notes that it was called, then does that
    name=$1; shift
    printf '%s\n' '#!/bin/sh' "echo $name >> $work/called" "$@" > "$work/bin/$name"
    chmod +x "$work/bin/$name"
}
PATH=$work/bin:/usr/bin:/bin
stand_in apt-get
stand_in sudo
stand_in npm
printf '#!/bin/sh\nexit 1\n' > "$work/bin/dpkg-query" # no package is installed
chmod +x "$work/bin/dpkg-query"
quiet() { "$@" > /dev/null 2>&1; }

echo "-- nothing is installed unasked"
calls() { # MAKE'S WORDS...: which installers that calls in a fresh tree
    rm -rf build "$work/called"
    quiet make "$@"
    echo "make $*: $(sort -u "$work/called" 2>/dev/null | grep -v sudo | paste -sd ' ')" # which root does not need
}
calls -n
calls -nk check-page
calls -q build
calls INSTALL=0 build/fast/deps
calls INSTALL=0 build/page/node_modules
calls build/page/node_modules
stand_in npm "mkdir -p build/page/node_modules/half" "exit 1"
quiet make build/page/node_modules; [ ! -e build/page/node_modules ] || echo "half of npm's folder is left"

echo "-- another nvcc is found, though its file is old"
found() { quiet make INSTALL=0 build/fast/flags; sed -n "s|^FOUND_CUDA := $work|nvcc: |p" build/fast/found.mk; }
found
stand_in nvcc 'exit 1'
touch -d 2020-01-01 "$work/bin/nvcc"
found

echo "-- a failed command leaves no half file"
mkdir -p build/web docs
echo core > build/web/core.wasm
stand_in gzip 'echo half' 'exit 1'
quiet make INSTALL=0 CUDA=0 -o build/web/core.wasm build/web/core.b64 && echo "make takes the failure for a success"
[ ! -e build/web/core.b64 ] || echo "a half file is left"
printf '#!/bin/sh\necho half; exit 1\n' > build/fast/manual
chmod +x build/fast/manual
echo whole | tee docs/json.md > docs/reference.md
quiet make INSTALL=0 CUDA=0 -o build/fast/manual docs && echo "make takes the failure for a success"
cat docs/json.md docs/reference.md

echo "-- PTX is made for the largest"
codes() { make -p -n INSTALL=0 "$@" clean 2>/dev/null | sed -n 's/^GENCODE := //p' | grep -o 'code=[a-z0-9_]*' | paste -sd ' '; }
codes
codes ARCHS='120 90 80'

echo "-- one date in every manual page"
export SOURCE_DATE_EPOCH=86400
tools/date +%F
printf '# Title\n\nText.\n' > docs/guide.md
tools/manpage docs/guide.md gpuhours-guide 7 | grep -o '1970-01-0.'
quiet make INSTALL=0 CUDA=0 -o build/fast/manual build/date; cat build/date
