#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cross.sh: builds on a Debian machine without a GPU, arm64 or x86-64, what a lent x86-64 machine with one runs, into build/x86:
# gpuhours, its CUDA library, cuda-parity, bench/engine, probe_attention and the tests, stripped. No time of that machine goes to compiling.
#
#     sh bench/gpu/cross.sh            installs two compilers and qemu with apt-get; INSTALL=0 never does
#     there: cp -r build/x86/. build/  session.sh does it
#
# Debian's amd64 libraries are unpacked below build/x86.make, where everything else lies that is not carried: nothing of this system
# changes, and AMD64=folder (…/usr/include, …/usr/lib/x86_64-linux-gnu) takes others. ARCHS (90): GPUs to compile for.
# CUDA's own libraries are those of the other machine, at /usr/local/cuda/lib64 or on its LD_LIBRARY_PATH; empty ones of the same
# names stand in for them here. Products of the CPU are in plain C: cuda-parity and experts.sh compare with those.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD out=$PWD/build/x86 make=$PWD/build/x86.make
amd64=${AMD64:-$make/amd64} toolkit=${CUDA_HOME:-/usr/local/cuda}
gcc=x86_64-linux-gnu-gcc
mkdir -p "$out/fast/bench" "$make/tree/build/fast" "$make/stand_ins"
INSTALL=${INSTALL:-1} tools/deps gcc-x86-64-linux-gnu g++-x86-64-linux-gnu $([ "$(uname -m)" = x86_64 ] || echo qemu-user-static)

# --- Debian's libraries, with lists of packages of our own -------------------

if [ ! -d "$amd64/usr/include" ]; then
    mkdir -p "$make/apt/lists/partial" "$make/apt/cache/archives/partial" "$amd64"
    apt="apt-get -qq -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o Dir::State::Lists=$make/apt/lists -o Dir::Cache=$make/apt/cache"
    $apt update
    (cd "$make/apt" && $apt download zlib1g-dev libzstd-dev libbz2-dev liblzma-dev libsqlite3-dev libyaml-dev)
    for package in "$make"/apt/*.deb; do dpkg -x "$package" "$amd64"; done
fi

# --- CUDA's, by their names: functions that do nothing here ------------------

for name in cudart cublasLt; do
    file=$(readlink "$toolkit/lib64/lib$name.so") # libcudart.so.13
    nm -D --defined-only "$toolkit/lib64/$file" | sed -n 's/.* T \([A-Za-z_0-9]*\).*/\1/p' | sort -u >"$make/stand_ins/$name"
    sed 's/.*/void &(void); void &(void) {}/' "$make/stand_ins/$name" | $gcc -shared -w -Wl,-soname,"$file" -x c - -o "$make/stand_ins/lib$name.so"
done

# --- the build, in a folder of links, whose build is its own -----------------

for each in Makefile VERSION src test bench tools data docs web; do
    ln -sfn "$root/$each" "$make/tree/$each"
done
cd "$make/tree"
[ build/fast/embed -nt tools/embed.c ] || cc -std=c17 -o build/fast/embed tools/embed.c # runs here; newer than its source, so it stays
# The compiler of arm64 knows no __float80, which C++'s headers for x86-64 mention.
nvcc="$toolkit/bin/nvcc -ccbin x86_64-linux-gnu-g++ -U__SIZEOF_FLOAT80__ -Xcompiler -U__SIZEOF_FLOAT80__"
nvcc="$nvcc -I$toolkit/include -isystem $toolkit/include/cccl -L$make/stand_ins -cudadevrt none"
make build cuda-parity build/fast/bench/engine build/fast/tests INSTALL=0 WEB=0 OPENBLAS=0 MPI=0 ARCHS="${ARCHS:-90}" CC=$gcc NVCC="$nvcc" CUDART=shared \
    CUDA_FOLDER=/usr/local/cuda/lib64 CFLAGS="-O3 -g -I$amd64/usr/include -I$amd64/usr/include/x86_64-linux-gnu" \
    LDFLAGS="-L$amd64/usr/lib/x86_64-linux-gnu"
objects=build/cuda/src/train/cuda/attention
$nvcc -gencode arch=compute_90a,code=sm_90a -O2 -std=c++20 -Isrc -cudart shared -o build/probe_attention test/cuda/probe_attention.cu \
    $objects/attention.cu.o $objects/attention_cudnn.cu.o $objects/attention_hopper.cu.o \
    $objects/attention_hopper_lists.cu.o $objects/attention_kernel.cu.o $objects/attention_plain.cu.o -ldl \
    -Xlinker -rpath,/usr/local/cuda/lib64

# --- what is carried ---------------------------------------------------------

cd "$make/tree/build"
for file in gpuhours libgpuhours-cuda.so cuda-parity probe_attention fast/bench/engine fast/tests; do
    x86_64-linux-gnu-strip -o "$out/$file" "$file"
done
for name in cudart cublasLt; do
    x86_64-linux-gnu-readelf -d "$out/libgpuhours-cuda.so" | grep -q "NEEDED.*lib$name" || { echo "the library does not ask for lib$name"; exit 1; }
done
sort -u "$make/stand_ins/cudart" "$make/stand_ins/cublasLt" >"$make/theirs"
x86_64-linux-gnu-nm -D -u "$out/libgpuhours-cuda.so" | sed -n 's/^ *U \(\(__\)\{0,1\}cu[^@]*\).*/\1/p' | sort -u | comm -23 - "$make/theirs" >"$make/open"
[ ! -s "$make/open" ] || { echo "neither library of CUDA has:" $(cat "$make/open"); exit 1; }
asked=$(x86_64-linux-gnu-nm -D -u "$out/libgpuhours-cuda.so" | sed -n 's/^ *U \([a-z][a-z_0-9]*\)$/\1/p' | grep -v '^cu' | tr '\n' ' ')
[ "$asked" = "fail " ] || { echo "the library asks the program for: $asked"; exit 1; } # fail() alone is exported to it
cd "$root"
du -sh build/x86
run=$([ "$(uname -m)" = x86_64 ] || echo qemu-x86_64-static)
command -v ${run:-true} >/dev/null || { echo "not tried: $run is not installed"; exit 0; }
amd64_loader=$(dirname "$(dirname "$($gcc -print-file-name=libc.so.6)")") # /usr/x86_64-linux-gnu: its loader and C library
try() { ${run:+$run -L "$amd64_loader"} build/x86/gpuhours "$@"; }
try --version
try plan example --model llama-3.2-1b --gpu h200 --search off --ledger off --quiet | sed -n 1,4p
