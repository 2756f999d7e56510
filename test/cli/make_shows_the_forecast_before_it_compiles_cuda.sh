# What `make` would do where nvcc is found: link the program, run it, say what comes next, then nvcc.
[ "$GPUHOURS" = build/gpuhours ] || { echo "plain make builds the plain program"; exit 77; }
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u CUDA make -n INSTALL=0 CUDA=1 NVCC=/none/nvcc -W src/train/cuda/cuda.cu |
    sed -nE 's/^build\/gpuhours$/forecast/p; s/.*(is ready\. Next comes the CUDA library).*/\1/p; s/.*make CUDA=0 leaves it out.*/offers CUDA=0/p; s/^\/none\/nvcc .* -c .*/nvcc compiles/p' |
    uniq
