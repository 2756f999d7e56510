# SPDX-License-Identifier: Apache-2.0
# What `make` does where nvcc is found: run the program, say what comes next, then start nvcc. Every
# CUDA object waits for the forecast, also with several jobs.
[ "$GPUHOURS" = build/gpuhours ] || { echo "plain make builds the plain program"; exit 77; }
dry_run() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -n "$@" INSTALL=0 CUDA=1 NVCC=/none/nvcc; }
dry_run -W src/train/cuda/cuda.cu |
    sed -nE 's/^build\/gpuhours$/forecast/p; s/.*(is ready\. Next comes the CUDA library).*/\1/p; s/.*make CUDA=0 leaves it out.*/offers CUDA=0/p; s/^\/none\/nvcc .* -c .*/nvcc compiles/p' |
    uniq
dry_run -p | grep -E '^build/cuda/[^%]*\.cu\.o: .*\.cu ' | sed 's/.*| *forecast$/waits/' | sort | uniq -c | sed 's/^ *[0-9]* *//'
