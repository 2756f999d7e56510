// SPDX-License-Identifier: Apache-2.0
// Products of experts on the tensor cores of compute capability 9.0, which multiply tiles that lie
// in shared memory (wgmma). experts.cu has the same products for other devices.
//
// A thread block computes 128 × 256 results: two groups of four warps, 64 × 256 each, 128 sums per
// thread. A step is 64 deep. The four places of a ring hold what is being copied and multiplied:
//
//     step    i − 1      i          i + 1      i + 2
//             multiplied multiplied arriving   being requested
//
// Products run on while threads request copies; a place is filled again two steps after its product
// was started, when both groups are known to have finished it. There are as many thread blocks as
// multiprocessors, and each computes tile after tile: the first copies of a tile are requested
// before the results of the one before it are stored.
//
// An operand lies in shared memory in rows of 128 bytes, and eight rows make up an atom, in which
// the 16-byte piece c of row r is at c ^ r: neither copies nor products meet a bank twice. Where
// memory has the depth side by side (`along`), the rows are the operand's own, and 16 deep is 32
// bytes further; where it has the outer side by side, a row is 64 of that at one depth, panels of
// 64 such rows follow each other, and 16 deep is 16 rows further:
//
//     along:  rows 0 … 255     │ depth 0 … 63     │
//     across: depth 0 … 63     │ columns 0 … 63   │   panel 0
//             depth 0 … 63     │ columns 64 … 127 │   panel 1, …
//
// Nobody waits for what does not come. The one barrier is __syncthreads(), once a step; how many
// steps there are follows from the experts' counts, which every warp reads for itself and nobody
// writes meanwhile, so all threads meet it equally often. What ragged shapes bring:
//
//     an expert without rows    has no tile; in tn no step, and the zeros of its sums are stored
//     fewer steps than AHEAD    copies that are left out are committed as empty groups: "all but
//                               the newest group" is always the step that is multiplied next
//     a tile ends               its last step may still be multiplied while the next tile's first
//                               two places are filled: those of three and four steps ago, which
//                               both groups had finished before the last barrier
//     rows, columns or depth    a copy of fewer than 16 bytes is filled up with zeros, one of none
//     end within a tile         reads nothing; results beyond the end are not stored. Columns are
//                               even (are_aligned() in experts.cu), so pairs end with them
//     no tile is left           tiles with rows come before those without: the first of those
//                               ends the block, as a whole

#include "train/cuda/experts.cuh"

enum { HIGH = 128, WIDE = 256, DEEP = 64, PLACES = 4, AHEAD = PLACES - 2, THREADS = 256 };
enum { GROUP = 128, OWN = 64, SUMS = OWN * WIDE / GROUP }; // threads and rows of a group of warps
enum { LINE = 128, ATOM = 8 * LINE, PANEL = DEEP * LINE, PIECE = 16 }; // bytes
enum {
    A_BYTES = HIGH * DEEP * 2,
    PLACE = A_BYTES + WIDE * DEEP * 2,
    BYTES = PLACES * PLACE + ATOM
};

// Where code for 9.0 is compiled; elsewhere the kernel is empty and never started.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

#if HAS_WGMMA

// --- copies to shared memory -------------------------------------------------

// A step of an operand of OUTER rows or columns; `outer` and `depth` of it exist, zeros follow
// them.
template <bool ALONG, int OUTER>
static __device__ inline void fetch_operand(uint32_t to, const bf16 *from, int64_t stride,
                                            int outer, int depth)
{
    const int across = ALONG ? DEEP / 8 : OUTER / 8, high = THREADS / across; // of all threads
    static_assert(high % 8 == 0, "the rows of a thread are at the same place of their atoms");
    int r = (int)threadIdx.x / across, c = (int)threadIdx.x % across, rows = ALONG ? outer : depth;
    int bytes = max(0, min((int)PIECE, 2 * ((ALONG ? depth : outer) - c * 8)));
    uint32_t place = to + c / 8 * PANEL + r * LINE + ((c ^ r) & 7) * PIECE;
    const bf16 *source = from + r * stride + c * 8;
#pragma unroll
    for (int i = 0; i < OUTER * DEEP / 8 / THREADS; i++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place + i * high * LINE),
                     "l"(source + i * high * stride), // not read where there are no bytes
                     "r"(r + i * high < rows ? bytes : 0));
}

template <kind KIND> struct sides {
    static constexpr bool A_ALONG = KIND != TN, B_ALONG = KIND == NT;
};

// Copies a step of a tile into the ring's place of this turn.
template <kind KIND>
static __device__ inline void fetch_step(uint32_t ring, int turn, const products &p,
                                         const task<bf16> &t, int step)
{
    using S = sides<KIND>;
    uint32_t place = ring + turn % PLACES * PLACE;
    int64_t k = (int64_t)step * DEEP;
    int left = t.k - (int)k;
    fetch_operand<S::A_ALONG, HIGH>(place, t.a + (S::A_ALONG ? k : k * p.a_stride), p.a_stride, t.m,
                                    left);
    fetch_operand<S::B_ALONG, WIDE>(place + A_BYTES, t.b + (S::B_ALONG ? k : k * p.b_stride),
                                    p.b_stride, t.n, left);
}

static __device__ inline int steps_of(const task<bf16> &t)
{
    return t.m > 0 ? (t.k + DEEP - 1) / DEEP : 0;
}

template <kind KIND>
static __device__ inline void fetch_first(uint32_t ring, int turn, const products &p,
                                          const task<bf16> &t)
{
#pragma unroll 1
    for (int i = 0; i < AHEAD; i++) {
        if (i < steps_of(t))
            fetch_step<KIND>(ring, turn + i, p, t, i);
        commit();
    }
}

// The tile of that number; one without rows after the last.
template <kind KIND>
static __device__ inline task<bf16> task_at(const products &p, uint3 tiles, unsigned index)
{
    uint3 tile = { index % tiles.x, index / tiles.x % tiles.y, index / (tiles.x * tiles.y) };
    if (tile.z >= tiles.z)
        return task<bf16>{ NULL, NULL, 0, 0, 0, 0 };
    return task_of<KIND, bf16, HIGH, WIDE>(p, tile);
}

// --- products ----------------------------------------------------------------

// How the hardware finds an operand: address, distance of panels, distance of atoms, 128-byte rows.
static __device__ inline uint64_t describe(uint32_t at)
{
    return (uint64_t)(at >> 4) | (uint64_t)(PANEL >> 4) << 16 | (uint64_t)(ATOM >> 4) << 32 |
           (uint64_t)1 << 62;
}

// x (64 × 256) += a (64 × 16) × b (16 × 256), started and not waited for.
template <bool A_ALONG, bool B_ALONG>
static __device__ inline void start_product(float (&x)[SUMS], uint64_t a, uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
        "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
        "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
        "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "
        "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
        "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "
        "%120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, 1, 1, 1, %130, %131;"
        : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]), "+f"(x[4]), "+f"(x[5]), "+f"(x[6]),
          "+f"(x[7]), "+f"(x[8]), "+f"(x[9]), "+f"(x[10]), "+f"(x[11]), "+f"(x[12]), "+f"(x[13]),
          "+f"(x[14]), "+f"(x[15]), "+f"(x[16]), "+f"(x[17]), "+f"(x[18]), "+f"(x[19]), "+f"(x[20]),
          "+f"(x[21]), "+f"(x[22]), "+f"(x[23]), "+f"(x[24]), "+f"(x[25]), "+f"(x[26]), "+f"(x[27]),
          "+f"(x[28]), "+f"(x[29]), "+f"(x[30]), "+f"(x[31]), "+f"(x[32]), "+f"(x[33]), "+f"(x[34]),
          "+f"(x[35]), "+f"(x[36]), "+f"(x[37]), "+f"(x[38]), "+f"(x[39]), "+f"(x[40]), "+f"(x[41]),
          "+f"(x[42]), "+f"(x[43]), "+f"(x[44]), "+f"(x[45]), "+f"(x[46]), "+f"(x[47]), "+f"(x[48]),
          "+f"(x[49]), "+f"(x[50]), "+f"(x[51]), "+f"(x[52]), "+f"(x[53]), "+f"(x[54]), "+f"(x[55]),
          "+f"(x[56]), "+f"(x[57]), "+f"(x[58]), "+f"(x[59]), "+f"(x[60]), "+f"(x[61]), "+f"(x[62]),
          "+f"(x[63]), "+f"(x[64]), "+f"(x[65]), "+f"(x[66]), "+f"(x[67]), "+f"(x[68]), "+f"(x[69]),
          "+f"(x[70]), "+f"(x[71]), "+f"(x[72]), "+f"(x[73]), "+f"(x[74]), "+f"(x[75]), "+f"(x[76]),
          "+f"(x[77]), "+f"(x[78]), "+f"(x[79]), "+f"(x[80]), "+f"(x[81]), "+f"(x[82]), "+f"(x[83]),
          "+f"(x[84]), "+f"(x[85]), "+f"(x[86]), "+f"(x[87]), "+f"(x[88]), "+f"(x[89]), "+f"(x[90]),
          "+f"(x[91]), "+f"(x[92]), "+f"(x[93]), "+f"(x[94]), "+f"(x[95]), "+f"(x[96]), "+f"(x[97]),
          "+f"(x[98]), "+f"(x[99]), "+f"(x[100]), "+f"(x[101]), "+f"(x[102]), "+f"(x[103]),
          "+f"(x[104]), "+f"(x[105]), "+f"(x[106]), "+f"(x[107]), "+f"(x[108]), "+f"(x[109]),
          "+f"(x[110]), "+f"(x[111]), "+f"(x[112]), "+f"(x[113]), "+f"(x[114]), "+f"(x[115]),
          "+f"(x[116]), "+f"(x[117]), "+f"(x[118]), "+f"(x[119]), "+f"(x[120]), "+f"(x[121]),
          "+f"(x[122]), "+f"(x[123]), "+f"(x[124]), "+f"(x[125]), "+f"(x[126]), "+f"(x[127])
        : "l"(a), "l"(b), "n"(!A_ALONG), "n"(!B_ALONG));
}

template <kind KIND>
static __device__ inline void start_step(float (&sum)[SUMS], uint32_t ring, int turn)
{
    using S = sides<KIND>;
    uint32_t place = ring + turn % PLACES * PLACE;
    uint64_t a = describe(place + threadIdx.x / GROUP * (OWN * LINE));
    uint64_t b = describe(place + A_BYTES);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < DEEP; k += 16)
        start_product<S::A_ALONG, S::B_ALONG>(sum, a + (S::A_ALONG ? k * 2 : k * LINE) / PIECE,
                                              b + (S::B_ALONG ? k * 2 : k * LINE) / PIECE);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until all but the newest LEFT steps of this group of warps are multiplied.
template <int LEFT> static __device__ inline void finish_steps(float (&sum)[SUMS])
{
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        asm volatile("" : "+f"(sum[i])::"memory"); // no use of a sum moves above the wait
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        asm volatile("" : "+f"(sum[i])::"memory");
}

// --- results -----------------------------------------------------------------

// Of four lanes side by side, lane l gives its word i to lane i, which keeps it as word l.
static __device__ inline void exchange(uint32_t (&w)[4])
{
#pragma unroll
    for (int step = 1; step < 4; step *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & step)) {
                bool upper = threadIdx.x & step;
                uint32_t other = __shfl_xor_sync(ALL, upper ? w[i] : w[i + step], step);
                if (upper)
                    w[i] = other;
                else
                    w[i + step] = other;
            }
}

// A lane has two neighbours of each eight columns: four lanes bring together what one can store at
// once, 16 bytes, so that a row gets 64 in a piece.
static __device__ inline void write_wide(const products &p, const task<bf16> &t,
                                         const float (&sum)[SUMS], int row)
{
    int lane = threadIdx.x % WARP;
    bf16 *out = (bf16 *)p.c.at + t.c;
#pragma unroll
    for (int j = 0; j < SUMS / 4; j += 4)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *x = sum + (j + i) * 4 + half * 2;
                __nv_bfloat162 two = __floats2bfloat162_rn(p.alpha * x[0], p.alpha * x[1]);
                words[i] = *(uint32_t *)&two;
            }
            exchange(words);
            int r = row + half * 8, c = (j + lane % 4) * 8;
            if (r < t.m && c < t.n)
                *(uint4 *)(out + r * p.c_stride + c) =
                    make_uint4(words[0], words[1], words[2], words[3]);
        }
}

static __device__ inline void write_narrow(const products &p, const task<bf16> &t,
                                           const float (&sum)[SUMS], int row)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < SUMS / 4; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int r = row + half * 8, c = j * 8 + lane % 4 * 2;
            if (r < t.m && c < t.n)
                write_two(p, t.c + r * p.c_stride + c, sum[j * 4 + half * 2],
                          sum[j * 4 + half * 2 + 1]);
        }
}

static __device__ inline void write_sums(const products &p, const task<bf16> &t,
                                         const float (&sum)[SUMS])
{
    int row = (int)threadIdx.x / WARP * 16 + (int)threadIdx.x % WARP / 4;
    bool wide = p.c.dtype == DTYPE_BF16 && p.beta == 0 && p.n % 8 == 0 && p.c_stride % 8 == 0 &&
                (uintptr_t)p.c.at % 16 == 0 && p.step % 8 == 0;
    if (wide)
        write_wide(p, t, sum, row);
    else
        write_narrow(p, t, sum, row);
}

#endif

template <kind KIND>
static __global__ void __launch_bounds__(THREADS, 1)
    wgmma_kernel(const __grid_constant__ products p, uint3 tiles)
{
#if HAS_WGMMA
    extern __shared__ char memory[];
    uint32_t ring = (shared_address(memory) + ATOM - 1) / ATOM * ATOM;
    unsigned index = blockIdx.x;
    task<bf16> t = task_at<KIND>(p, tiles, index);
    int turn = 0; // of the ring, over all tiles
    fetch_first<KIND>(ring, turn, p, t);
#pragma unroll 1
    while (t.m > 0) {
        float sum[SUMS] = {};
        int steps = steps_of(t);
#pragma unroll 1
        for (int i = 0; i < steps; i++, turn++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // copies, seen by products
            __syncthreads(); // everyone's copies are there, and the turn before last is multiplied
            start_step<KIND>(sum, ring, turn);
            if (i + AHEAD < steps)
                fetch_step<KIND>(ring, turn + AHEAD, p, t, i + AHEAD);
            commit();
            finish_steps<1>(sum);
        }
        task<bf16> next = task_at<KIND>(p, tiles, index += gridDim.x);
        fetch_first<KIND>(ring, turn, p, next);
        finish_steps<0>(sum);
        write_sums(p, t, sum);
        t = next;
    }
#else
    (void)p, (void)tiles;
#endif
}

// --- launches ----------------------------------------------------------------

bool wgmma_supports(const struct cuda *cuda)
{
    const int built_for[] = { __CUDA_ARCH_LIST__ };
    for (int built : built_for)
        if (built == 900)
            return cuda->capability == 90 && (int)BYTES <= cuda->shared_bytes;
    return false;
}

template <kind KIND> static void launch(struct cuda *cuda, const products &p, int64_t rows)
{
    cuda_check(cuda,
               cudaFuncSetAttribute(wgmma_kernel<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    BYTES),
               "products of experts");
    dim3 tiles = grid_of(p, KIND, rows, HIGH, WIDE);
    int64_t count = (int64_t)tiles.x * tiles.y * tiles.z;
    wgmma_kernel<KIND>
        <<<(unsigned)least(count, cuda->multiprocessors), THREADS, BYTES, cuda->stream>>>(
            p, uint3{ tiles.x, tiles.y, tiles.z });
    cuda_launched(cuda, "products of experts");
}

void wgmma_multiply(struct cuda *cuda, kind kind, const products &p, int64_t rows)
{
    if (kind == NT)
        launch<NT>(cuda, p, rows);
    else if (kind == NN)
        launch<NN>(cuda, p, rows);
    else
        launch<TN>(cuda, p, rows);
}
