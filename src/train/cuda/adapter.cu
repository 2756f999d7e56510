// SPDX-License-Identifier: Apache-2.0
// Backward through the second factors of adapters: dz = s · dy B and dB += dyᵀ z, in one pass over
// dy, which is the only large operand: T × out against T × rank and out × rank.
//
// dy is cut into blocks of 16 tokens and strips of 1024 columns. A unit is one block of one strip;
// units are numbered down a strip, then down the next:
//
//                    strip 0      strip 1      strip 2
//                 ┌────────────┬────────────┬───────┐      ┌────┐
//      16 tokens  │     0      │     4      │   8   │      │    │
//                 ├────────────┼────────────┼───────┤      ├────┤
//                 │     1      │     5      │   9   │      │    │
//            dy   ├────────────┼────────────┼───────┤   z  ├────┤
//                 │     2      │     6      │  10   │      │    │
//                 ├────────────┼────────────┼───────┤      ├────┤
//                 │     3      │     7      │  11   │      │    │
//                 └────────────┴────────────┴───────┘      └────┘
//                  1024 columns                             rank
//
// The pass. All units are divided evenly among SHARES thread blocks, each with consecutive units;
// with 5 shares of the 12 units above: 0–1, 2–3, 4–6, 7–8, 9–11. A share walks its units while the
// next ones are being copied. Each warp has 128 columns of the strip, with their rows of B and
// their sums of dB in registers. For a unit it multiplies
//
//      its part of dy by B      → a part of dz, which the 8 warps add up in shared memory
//      its part of dyᵀ by z     → added to dB in registers
//
// The partial sums go to memory as fp32, in register order: dz of each unit, dB at the end of each
// strip and of each share. The pair (share, strip) rises in one of its members at each of these
// ends, so share + strip numbers the partial sums of dB without a collision: SHARES + strips − 1.
//
// The finish. A second kernel adds the partial sums in order and rounds dz once. The number of
// shares does not depend on the GPU, so neither do the bits.

#include "train/cuda/kernels.cuh"
#include "train/cuda/mma.cuh"
#include "train/cuda/operations.h"

enum { ROWS = 16, WARPS = 8, THREADS = WARPS * 32, MOST_PARTS = 4 };
enum { SHARES = 132 }; // one per multiprocessor of an H100 or H200

template <int R> struct sizes {
    enum {
        OWN = 128, // columns of a warp, with R · OWN sums of dB in its registers
        STRIP = WARPS * OWN,
        PITCH = STRIP + 8, // rows are shifted by 16 bytes to avoid bank conflicts
        Z_PITCH = 24,
        STAGE = ROWS * (PITCH + Z_PITCH), // elements: a block of dy and of z
        BLOCK_DZ = ROWS * R,              // floats
        STRIP_DB = STRIP * R,
    };
    static_assert(OWN % 16 == 0 && R % 8 == 0, "tiles of mma.m16n8k16");
    static_assert(PITCH * 2 % 16 == 0 && Z_PITCH * 2 % 16 == 0 && STAGE * 2 % 16 == 0,
                  "copies and fragments are aligned to 16 bytes");
    static_assert(R <= Z_PITCH && THREADS % (STRIP / 8) == 0, "threads cover a row of a block");
};

struct part {
    const bf16 *dy, *b, *z;
    operand db;
    int64_t db_stride;
    int columns, first_z, strip; // strip: the first one of this part
};

struct pass {
    part parts[MOST_PARTS];
    int count;
    int64_t dy_stride, b_stride, z_stride, dz_stride;
    int tokens, blocks, strips, shares, groups; // groups: of 8 columns of dz
    float scale;
    bf16 *dz;
    float *dz_sums, *db_sums; // (strips, blocks, BLOCK_DZ), (shares + strips − 1, STRIP_DB)
};

// --- the pass ----------------------------------------------------------------

// The part that a strip belongs to.
static __device__ inline int part_of(const pass &p, int strip)
{
    int part = p.count - 1;
    while (strip < p.parts[part].strip)
        part--;
    return part;
}

struct place {
    int part, strip, block;
};

static __device__ inline place place_of(const pass &p, int64_t unit)
{
    int strip = (int)(unit / p.blocks);
    return place{ part_of(p, strip), strip, (int)(unit % p.blocks) };
}

static __device__ inline void advance(place *at, const pass &p)
{
    if (++at->block < p.blocks)
        return;
    at->block = 0;
    at->strip++;
    if (at->part + 1 < p.count && at->strip == p.parts[at->part + 1].strip)
        at->part++;
}

// Copies a block of dy and of z to shared memory, zeros after the last token and column.
template <int R>
static __device__ inline void fetch_block(bf16 *stage, const pass &p, const place &at)
{
    using S = sizes<R>;
    const int across = S::STRIP / 8, step = THREADS / across, z_across = R / 8;
    const part &own = p.parts[at.part];
    int first = at.block * ROWS, c = (int)threadIdx.x % across * 8;
    int column = (at.strip - own.strip) * S::STRIP + c;
    int bytes = max(0, min(16, 2 * (own.columns - column)));
#pragma unroll
    for (int i = 0; i < ROWS / step; i++) {
        int r = (int)threadIdx.x / across + i * step;
        int there = first + r < p.tokens ? bytes : 0;
        const bf16 *from = there ? own.dy + (first + r) * p.dy_stride + column : own.dy;
        copy16(stage + r * S::PITCH + c, from, there);
    }
    if (threadIdx.x < ROWS * z_across) {
        int r = (int)threadIdx.x / z_across, z = (int)threadIdx.x % z_across * 8;
        bool there = first + r < p.tokens;
        const bf16 *from = there ? own.z + (first + r) * p.z_stride + z : own.z;
        copy16(stage + ROWS * S::PITCH + r * S::Z_PITCH + z, from, there ? 16 : 0);
    }
}

// The warp's rows of B, as right operands: columns of dy by columns of z.
template <int R>
static __device__ inline void load_b(uint32_t (&b)[sizes<R>::OWN / 16][R / 8][2], const pass &p,
                                     const place &at)
{
    using S = sizes<R>;
    const part &own = p.parts[at.part];
    const uint16_t *from = (const uint16_t *)own.b;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int first = (at.strip - own.strip) * S::STRIP + warp * S::OWN + lane % 4 * 2;
#pragma unroll
    for (int k = 0; k < S::OWN / 16; k++)
#pragma unroll
        for (int t = 0; t < R / 8; t++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int row = first + k * 16 + h * 8, column = t * 8 + lane / 4;
                uint32_t low = row < own.columns ? from[row * p.b_stride + column] : 0;
                uint32_t high = row + 1 < own.columns ? from[(row + 1) * p.b_stride + column] : 0;
                b[k][t][h] = low | high << 16;
            }
}

// The products of the warp's columns of a block: sets dz, adds to dB.
template <int R>
static __device__ inline void multiply(float (&dz)[R / 8][4],
                                       float (&db)[sizes<R>::OWN / 16][R / 8][4],
                                       const uint32_t (&b)[sizes<R>::OWN / 16][R / 8][2],
                                       const bf16 *stage)
{
    using S = sizes<R>;
    int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const bf16 *dy = stage + threadIdx.x / 32 * S::OWN, *at = stage + ROWS * S::PITCH;
    uint32_t z[4], left[4]; // with R = 8, half of z is unused
    load4_transposed(z, at + (m % 2 * 8 + r) * S::Z_PITCH + m / 2 * 8);
#pragma unroll
    for (int t = 0; t < R / 8; t++)
        for (int i = 0; i < 4; i++)
            dz[t][i] = 0;
#pragma unroll
    for (int k = 0; k < S::OWN / 16; k++) {
        load4(left, dy + (m % 2 * 8 + r) * S::PITCH + k * 16 + m / 2 * 8);
#pragma unroll
        for (int t = 0; t < R / 8; t++)
            mma(dz[t], left, b[k][t]);
        load4_transposed(left, dy + (m / 2 * 8 + r) * S::PITCH + k * 16 + m % 2 * 8);
#pragma unroll
        for (int t = 0; t < R / 8; t++)
            mma(db[k][t], left, z + t * 2);
    }
}

// Writes the sum over the warps to memory.
template <int R>
static __device__ inline void add_warps(const pass &p, const place &at, const float *sums)
{
    using S = sizes<R>;
    float *out = p.dz_sums + ((int64_t)at.strip * p.blocks + at.block) * S::BLOCK_DZ;
    for (int i = threadIdx.x; i < S::BLOCK_DZ; i += THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            sum += sums[w * S::BLOCK_DZ + i];
        out[i] = sum;
    }
}

template <int R, int STAGES>
static __global__ void __launch_bounds__(THREADS, 1) pass_kernel(const __grid_constant__ pass p)
{
    using S = sizes<R>;
    extern __shared__ __align__(16) bf16 memory[];
    float *sums = (float *)(memory + STAGES * S::STAGE); // of two blocks, alternating
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t units = (int64_t)p.strips * p.blocks;
    int64_t first = units * blockIdx.x / p.shares, end = units * (blockIdx.x + 1) / p.shares;
    int count = (int)(end - first);
    place here = place_of(p, first), ahead = here, before = here;
    uint32_t b[S::OWN / 16][R / 8][2];
    float db[S::OWN / 16][R / 8][4], dz[R / 8][4];
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < count) {
            fetch_block<R>(memory + i * S::STAGE, p, ahead);
            advance(&ahead, p);
        }
        commit();
    }
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        if (!i || !here.block) {
            load_b<R>(b, p, here);
            memset(db, 0, sizeof db);
        }
        arrived<STAGES - 2>(); // and all warps have finished the previous block
        if (i)
            add_warps<R>(p, before, sums + (i - 1) % 2 * WARPS * S::BLOCK_DZ);
        if (i + STAGES - 1 < count) {
            fetch_block<R>(memory + (i + STAGES - 1) % STAGES * S::STAGE, p, ahead);
            advance(&ahead, p);
        }
        commit();
        multiply<R>(dz, db, b, memory + i % STAGES * S::STAGE);
        float4 *own = (float4 *)(sums + (i % 2 * WARPS + warp) * S::BLOCK_DZ) + lane;
#pragma unroll
        for (int t = 0; t < R / 8; t++)
            own[t * 32] = make_float4(dz[t][0], dz[t][1], dz[t][2], dz[t][3]);
        before = here;
        advance(&here, p);
        if (here.block && i + 1 < count)
            continue;
        int64_t slot = (int64_t)blockIdx.x + before.strip; // unique: see above
        float4 *out = (float4 *)(p.db_sums + slot * S::STRIP_DB) + lane;
#pragma unroll
        for (int k = 0; k < S::OWN / 16; k++)
#pragma unroll
            for (int t = 0; t < R / 8; t++)
                out[((warp * S::OWN / 16 + k) * (R / 8) + t) * 32] =
                    make_float4(db[k][t][0], db[k][t][1], db[k][t][2], db[k][t][3]);
    }
    __syncthreads();
    add_warps<R>(p, before, sums + (count - 1) % 2 * WARPS * S::BLOCK_DZ);
}

// --- adding up ---------------------------------------------------------------

// Two neighbours in a row of dz; columns of no part become zero.
template <int R> static __device__ inline void finish_dz(const pass &p, int64_t at)
{
    using S = sizes<R>;
    int half = (int)(at % 2), lane = (int)(at / 2 % 32), group = (int)(at / 64 % p.groups);
    int64_t block = at / 64 / p.groups, row = block * ROWS + half * 8 + lane / 4;
    if (row >= p.tokens)
        return;
    float2 sum = make_float2(0, 0);
    for (int i = 0; i < p.count; i++) {
        int t = group - p.parts[i].first_z / 8;
        if (t < 0 || t >= R / 8)
            continue;
        int end = i + 1 < p.count ? p.parts[i + 1].strip : p.strips;
        const float *from = p.dz_sums + block * S::BLOCK_DZ + (t * 32 + lane) * 4 + half * 2;
#pragma unroll 4
        for (int strip = p.parts[i].strip; strip < end; strip++) {
            float2 x = *(const float2 *)(from + (int64_t)strip * p.blocks * S::BLOCK_DZ);
            sum.x += x.x, sum.y += x.y;
        }
    }
    *(__nv_bfloat162 *)(p.dz + row * p.dz_stride + group * 8 + lane % 4 * 2) =
        __floats2bfloat162_rn(sum.x * p.scale, sum.y * p.scale);
}

// The share of a unit: the last one that begins at or before it.
static __device__ inline int share_of(const pass &p, int64_t unit)
{
    return (int)(((unit + 1) * p.shares - 1) / ((int64_t)p.strips * p.blocks));
}

static __device__ inline void add_two(const part &own, int column, int k, float x, float y)
{
    if (column >= own.columns)
        return;
    float old[2];
    load_any(old, own.db, column * own.db_stride + k);
    const float sum[2] = { old[0] + x, old[1] + y };
    store_any(own.db, column * own.db_stride + k, sum);
}

// Two neighbours in a row of dB, and the same eight rows below.
template <int R> static __device__ inline void finish_db(const pass &p, int64_t at)
{
    using S = sizes<R>;
    int strip = (int)(at / (S::STRIP_DB / 4)), quad = (int)(at % (S::STRIP_DB / 4));
    if (strip >= p.strips)
        return;
    const part &own = p.parts[part_of(p, strip)];
    int lane = quad % 32, t = quad / 32 % (R / 8), tile = quad / 32 / (R / 8);
    int column = (strip - own.strip) * S::STRIP + tile * 16 + lane / 4, k = t * 8 + lane % 4 * 2;
    int first = share_of(p, (int64_t)strip * p.blocks);
    int last = share_of(p, (int64_t)(strip + 1) * p.blocks - 1);
    const float *from = p.db_sums + (int64_t)strip * S::STRIP_DB + quad * 4;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int share = first; share <= last; share++) {
        float4 x = *(const float4 *)(from + (int64_t)share * S::STRIP_DB);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    add_two(own, column, k, sum.x, sum.y);
    add_two(own, column + 8, k, sum.z, sum.w);
}

// The first thread blocks finish dz, the others dB.
template <int R>
static __global__ void finish_kernel(const __grid_constant__ pass p, int64_t dz_blocks)
{
    if (blockIdx.x < dz_blocks) {
        int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
        if (at < (int64_t)p.blocks * p.groups * 64)
            finish_dz<R>(p, at);
    } else {
        finish_db<R>(p, ((int64_t)blockIdx.x - dz_blocks) * THREADS + threadIdx.x);
    }
}

// --- launches ----------------------------------------------------------------

template <int R, int STAGES> static bool launch_pass(struct cuda *cuda, const pass &p)
{
    using S = sizes<R>;
    const int bytes = STAGES * S::STAGE * 2 + 2 * WARPS * S::BLOCK_DZ * 4;
    if (bytes > cuda->shared_bytes)
        return false;
    cuda_check(cuda,
               cudaFuncSetAttribute(pass_kernel<R, STAGES>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "an adapter's gradient");
    pass_kernel<R, STAGES><<<(unsigned)p.shares, THREADS, bytes, cuda->stream>>>(p);
    cuda_launched(cuda, "an adapter's gradient");
    return true;
}

// All tokens, or as many at a time as their partial sums fit into the workspace.
template <int R> static bool run(struct cuda *cuda, pass p, int64_t tokens)
{
    using S = sizes<R>;
    const int64_t dz_bytes = S::BLOCK_DZ * 4, db_bytes = S::STRIP_DB * 4;
    p.strips = 0;
    for (int i = 0; i < p.count; i++) {
        p.parts[i].strip = p.strips;
        p.strips += (int)ceil_div(p.parts[i].columns, S::STRIP);
    }
    int64_t room = CUDA_PRODUCTS - (SHARES + p.strips - 1) * db_bytes;
    int64_t blocks = ceil_div(tokens, ROWS), most = room / (p.strips * dz_bytes);
    if (most < 1)
        return false;
    int64_t each = ceil_div(blocks, ceil_div(blocks, most)) * ROWS;
    p.db_sums = (float *)cuda_products_workspace(cuda);
    p.dz_sums = p.db_sums + (SHARES + p.strips - 1) * (int64_t)S::STRIP_DB;
    for (int64_t done = 0; done < tokens; done += each) {
        p.tokens = (int)least(each, tokens - done);
        p.blocks = (int)ceil_div(p.tokens, ROWS);
        p.shares = (int)least(SHARES, (int64_t)p.strips * p.blocks);
        if (!launch_pass<R, 6>(cuda, p) && !launch_pass<R, 4>(cuda, p) &&
            !launch_pass<R, 2>(cuda, p))
            return false;
        int64_t dz_blocks = ceil_div((int64_t)p.blocks * p.groups * 64, THREADS);
        int64_t db_blocks = ceil_div((int64_t)p.strips * S::STRIP_DB / 4, THREADS);
        finish_kernel<R>
            <<<(unsigned)(dz_blocks + db_blocks), THREADS, 0, cuda->stream>>>(p, dz_blocks);
        cuda_launched(cuda, "an adapter's gradient");
        for (int i = 0; i < p.count; i++) {
            p.parts[i].dy += each * p.dy_stride;
            p.parts[i].z += each * p.z_stride;
        }
        p.dz += each * p.dz_stride;
    }
    return true;
}

static struct tensor columns_of(struct tensor t, int64_t first, int64_t columns)
{
    t.at = (char *)t.at + first * bytes_of(t.dtype);
    t.columns = columns;
    return t;
}

static bool fits(struct tensor dz, const struct adapter_part *parts, int count, struct tensor dy,
                 struct tensor b, struct tensor z)
{
    if (dy.dtype != DTYPE_BF16 || b.dtype != DTYPE_BF16 || z.dtype != DTYPE_BF16 ||
        dz.dtype != DTYPE_BF16 || !in_vectors(8, { dz, z }) || count < 1 || count > MOST_PARTS)
        return false;
    if ((uintptr_t)dy.at % 16 || (dy.rows > 1 && dy.stride % 8))
        return false;
    for (int i = 0; i < count; i++)
        if (parts[i].first % 8 || parts[i].first_z % 8 || !in_vectors(2, { parts[i].db }) ||
            parts[i].db.columns != parts[0].db.columns || parts[i].db.rows < 1)
            return false;
    return true;
}

static bool in_one_pass(struct cuda *cuda, struct tensor dz, const struct adapter_part *parts,
                        int count, struct tensor dy, struct tensor b, struct tensor z, double scale)
{
    if (!fits(dz, parts, count, dy, b, z))
        return false;
    pass p = {};
    p.count = count;
    p.dy_stride = dy.stride, p.b_stride = b.stride, p.z_stride = z.stride;
    p.dz_stride = dz.stride, p.groups = (int)(dz.columns / 8);
    p.scale = (float)scale;
    p.dz = (bf16 *)dz.at;
    for (int i = 0; i < count; i++) {
        const struct adapter_part *from = &parts[i];
        p.parts[i].dy = (const bf16 *)dy.at + from->first;
        p.parts[i].b = (const bf16 *)b.at + from->first * b.stride + from->first_z;
        p.parts[i].z = (const bf16 *)z.at + from->first_z;
        p.parts[i].db = any_of(from->db);
        p.parts[i].db_stride = from->db.stride;
        p.parts[i].columns = (int)from->db.rows;
        p.parts[i].first_z = (int)from->first_z;
    }
    switch (parts[0].db.columns) {
    case 8: return run<8>(cuda, p, dy.rows);
    case 16: return run<16>(cuda, p, dy.rows);
    default: return false; // at rank 32 two separate products are faster
    }
}

void cuda_adapters_backward(struct device *device, struct tensor dz,
                            const struct adapter_part *parts, int count, struct tensor dy,
                            struct tensor b, struct tensor z, double scale)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !dy.rows || in_one_pass(cuda, dz, parts, count, dy, b, z, scale))
        return;
    cuda_matmul_nn(device, dz, dy, b, scale, 0);
    for (int i = 0; i < count; i++)
        cuda_matmul_tn(device, parts[i].db, columns_of(dy, parts[i].first, parts[i].db.rows),
                       columns_of(z, parts[i].first_z, parts[i].db.columns), 1, 1);
}
