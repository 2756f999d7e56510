#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program, its CUDA library and the benches on a GPU machine without network; libraries that it lacks
# may lie in .amd64. The log goes to $OUT (or the folder build/gpu).
set -u
cd "$(dirname "$0")/../.."
out=${OUT:-build/gpu}
mkdir -p "$out"
export INSTALL=0 ARCHS=${ARCHS:-90}
libs=.amd64/usr
[ -d $libs ] && set -- "CFLAGS=-O3 -g -I$libs/include" "LDFLAGS=-L$libs/lib/x86_64-linux-gnu" "$@"
make build cuda-parity build/fast/bench/engine CC=gcc "$@" >"$out/build.log" 2>&1 || { tail -30 "$out/build.log"; exit 1; }
echo "built after $SECONDS s"
