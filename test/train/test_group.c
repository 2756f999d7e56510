// SPDX-License-Identifier: Apache-2.0
// Every collective with 1, 2, 3, 4 and 8 ranks, of all sizes, types and ways; bytes are counted.

#include "base/half.h"
#include "test/train/gradient.h"
#include "test/train/ranks.h"

#include <stdlib.h>
#include <string.h>

static const int sizes[] = { 1, 2, 3, 4, 8 };
enum { SIZES = sizeof sizes / sizeof *sizes };

// None, one, around the alignment of parts, fewer elements than ranks times that, and many chunks.
static const int64_t counts[] = { 0, 1, 7, 127, 128, 129, 1024, 2999, 300000 };
enum { COUNTS = sizeof counts / sizeof *counts };

// Small whole numbers: every order of adding them gives the same sum, also in bf16.
static double value_of(int rank, int64_t i)
{
    return (double)((i * 7 + rank * 3) % 5);
}

static double sum_of(const struct group *group, int64_t i)
{
    double sum = 0;
    for (int rank = 0; rank < group->size; rank++)
        sum += value_of(rank, i);
    return sum;
}

static void put(struct tensor tensor, int64_t i, double value)
{
    tensor_store(tensor, 0, i, &value, 1);
}

static double get(struct tensor tensor, int64_t i)
{
    double value;
    tensor_load(&value, tensor, 0, i, 1);
    return value;
}

static struct tensor filled(struct group *group, struct arena *arena, enum dtype dtype,
                            int64_t count)
{
    struct tensor tensor =
        tensor_of(arena_alloc(arena, (size_t)(count * dtype_bytes(dtype)) + 1), dtype, 1, count);
    for (int64_t i = 0; i < count; i++)
        put(tensor, i, value_of(group->rank, i));
    return tensor;
}

static int owner_of(const struct group *group, int64_t count, int64_t i)
{
    int owner = 0;
    while (i >= group_part(group, count, owner).first + group_part(group, count, owner).count)
        owner++;
    return owner;
}

static bool all_reduces(struct group *group, struct arena *arena, enum dtype dtype, int64_t count)
{
    struct tensor tensor = filled(group, arena, dtype, count);
    group_all_reduce(group, tensor);
    bool good = !group_wait(group);
    for (int64_t i = 0; i < count && good; i++)
        good = get(tensor, i) == sum_of(group, i);
    return good;
}

// Only the own part is promised.
static bool reduce_scatters(struct group *group, struct arena *arena, enum dtype dtype,
                            int64_t count)
{
    struct tensor tensor = filled(group, arena, dtype, count);
    group_reduce_scatter(group, tensor);
    bool good = !group_wait(group);
    struct group_part part = group_part(group, count, group->rank);
    for (int64_t i = part.first; i < part.first + part.count && good; i++)
        good = get(tensor, i) == sum_of(group, i);
    return good;
}

static bool all_gathers(struct group *group, struct arena *arena, enum dtype dtype, int64_t count)
{
    struct tensor tensor = filled(group, arena, dtype, count);
    group_all_gather(group, tensor);
    bool good = !group_wait(group);
    for (int64_t i = 0; i < count && good; i++)
        good = get(tensor, i) == value_of(owner_of(group, count, i), i);
    return good;
}

static bool broadcasts(struct group *group, struct arena *arena, enum dtype dtype, int64_t count)
{
    bool good = true;
    for (int root = 0; root < group->size && good; root++) {
        struct tensor tensor = filled(group, arena, dtype, count);
        group_broadcast(group, tensor, root);
        good = !group_wait(group);
        for (int64_t i = 0; i < count && good; i++)
            good = get(tensor, i) == value_of(root, i);
    }
    return good;
}

typedef bool (*collective)(struct group *, struct arena *, enum dtype, int64_t);

static bool every_size_and_type(struct group *group, void *context)
{
    static const enum dtype types[] = { DTYPE_F32, DTYPE_F64, DTYPE_BF16 };
    collective *what = context;
    for (int t = 0; t < 3; t++)
        for (int c = 0; c < COUNTS; c++) {
            struct arena arena = { 0 };
            bool is_long = counts[c] > 4096 && (t || *what == broadcasts);
            bool good = is_long || (*what)(group, &arena, types[t], counts[c]);
            arena_release(&arena);
            if (!good)
                return false;
        }
    return true;
}

static void check_with_all_ranks(collective what)
{
    for (int i = 0; i < SIZES; i++)
        CHECK(ranks_run(sizes[i], every_size_and_type, &what));
}

TEST(group_all_reduce_sums_on_every_rank)
{
    check_with_all_ranks(all_reduces);
}

TEST(group_reduce_scatter_sums_each_ranks_part)
{
    check_with_all_ranks(reduce_scatters);
}

TEST(group_all_gather_spreads_each_ranks_part)
{
    check_with_all_ranks(all_gathers);
}

TEST(group_broadcast_reaches_everybody_from_any_rank)
{
    check_with_all_ranks(broadcasts);
}

TEST(group_parts_cover_everything_once_and_begin_aligned)
{
    for (int s = 0; s < SIZES; s++)
        for (int c = 0; c < COUNTS; c++) {
            struct group group = { .size = sizes[s] };
            int64_t end = 0;
            for (int rank = 0; rank < group.size; rank++) {
                struct group_part part = group_part(&group, counts[c], rank);
                CHECK(part.first == end && (part.first % GROUP_ALIGNMENT == 0 || !part.count));
                end = part.first + part.count;
            }
            CHECK(end == counts[c]);
        }
}

// --- numbers, and the same bits everywhere -----------------------------------

static bool sums_numbers(struct group *group, void *context)
{
    double values[] = { group->rank + 1, -group->rank, 0.5 }, least[] = { 7 - group->rank, 3 };
    double ranks = group->size;
    (void)context;
    return !group_sum(group, values, 3) && values[0] == ranks * (ranks + 1) / 2 &&
           values[1] == -ranks * (ranks - 1) / 2 && values[2] == ranks / 2 &&
           !group_least(group, least, 2) && least[0] == 8 - ranks && least[1] == 3 &&
           !group_meet(group);
}

TEST(group_sums_numbers_and_finds_the_least)
{
    for (int i = 0; i < SIZES; i++)
        CHECK(ranks_run(sizes[i], sums_numbers, NULL));
}

// Rank r brings r · r bytes, or 100,000 times as many: rank 0 none, the last more than a chunk.
static bool gather_bytes(struct group *group, void *context)
{
    int64_t scale = *(const int64_t *)context, parts[RANKS_MOST], all = 0, at = 0;
    for (int i = 0; i < group->size; i++)
        all += parts[i] = scale * i * i;
    uint8_t *bytes = calloc((size_t)all + 1, 1);
    for (int i = 0; i < group->size; at += parts[i++])
        if (i == group->rank)
            memset(bytes + at, i, (size_t)parts[i]);
    bool good = !group_gather(group, bytes, parts);
    at = 0;
    for (int i = 0; i < group->size; i++)
        for (int64_t j = 0; j < parts[i]; j++)
            good = good && bytes[at++] == i;
    free(bytes);
    return good;
}

TEST(group_gathers_bytes_of_every_rank_in_their_order)
{
    for (int i = 0; i < SIZES; i++)
        for (int64_t scale = 1; scale <= 100000; scale *= 100000)
            CHECK(ranks_run(sizes[i], gather_bytes, &scale));
}

enum { BITS = 5000 };
static float sums[RANKS_MOST][BITS];

static bool sums_fractions(struct group *group, void *context)
{
    struct rng rng = rng_seeded((uint64_t)group->rank + 1);
    (void)context;
    for (int i = 0; i < BITS; i++)
        sums[group->rank][i] = (float)rng_normal(&rng);
    group_all_reduce(group, tensor_of(sums[group->rank], DTYPE_F32, 1, BITS));
    return !group_wait(group);
}

TEST(group_all_reduce_gives_every_rank_and_every_run_the_same_bits)
{
    static float before[BITS];
    for (int run = 0; run < 2; run++) {
        CHECK(ranks_run(8, sums_fractions, NULL));
        for (int rank = 1; rank < 8; rank++)
            CHECK(!memcmp(sums[0], sums[rank], sizeof sums[0]));
        CHECK(!run || !memcmp(before, sums[0], sizeof before));
        memcpy(before, sums[0], sizeof before);
    }
}

// --- devices -----------------------------------------------------------------

// A device whose memory is not the host's, as far as the group knows: all goes through copies.
static struct backend strange;
static struct device strange_device;

static bool through_the_host(struct group *group, void *context)
{
    collective *what = context;
    struct arena arena = { 0 };
    bool good = !group_use(group, &strange_device) && !group->is_on_device;
    for (int c = 0; c < COUNTS && good; c++)
        good = (*what)(group, &arena, DTYPE_F32, counts[c]);
    arena_release(&arena);
    return good;
}

TEST(group_copies_tensors_of_a_device_through_the_host)
{
    collective all[] = { all_reduces, reduce_scatters, all_gathers, broadcasts };
    strange = *gradient_device()->backend;
    strange_device = *gradient_device();
    strange_device.backend = &strange;
    for (int i = 0; i < 4; i++) {
        CHECK(ranks_run(2, through_the_host, &all[i]));
        CHECK(ranks_run(3, through_the_host, &all[i]));
    }
}

// A device with collectives of its own, as NCCL gives a GPU: here over a second group.
struct linked {
    struct device device;
    struct group inner;
    char id;
};

static struct linked *linked_of(struct device *device)
{
    return device->own;
}

static enum err draw_id(struct device *device, struct group_id *out)
{
    (void)device;
    if (out)
        memset(out->bytes, 0xA5, sizeof out->bytes);
    return OK;
}

static enum err open_linked(struct device *device, const struct group_id *id, int rank, int size)
{
    linked_of(device)->id = id->bytes[127];
    return rank < size ? OK : ERR_BUG;
}

static void all_reduce(struct device *device, struct tensor tensor)
{
    group_all_reduce(&linked_of(device)->inner, tensor);
}

static void reduce_scatter(struct device *device, struct tensor tensor, int64_t part)
{
    struct group *inner = &linked_of(device)->inner;
    if (part == group_part(inner, tensor.columns, 0).count)
        group_reduce_scatter(inner, tensor);
}

static void all_gather(struct device *device, struct tensor tensor, const void *own, int64_t part)
{
    struct group *inner = &linked_of(device)->inner;
    int64_t count = group_part(inner, tensor.columns, inner->rank).count;
    if (part == group_part(inner, tensor.columns, 0).count)
        group_all_gather_from(inner, tensor, tensor_of((void *)own, tensor.dtype, 1, count));
}

static void broadcast(struct device *device, struct tensor tensor, int root)
{
    group_broadcast(&linked_of(device)->inner, tensor, root);
}

static void do_nothing(struct device *device)
{
    (void)device;
}

static bool by_the_device(struct group *group, void *context)
{
    struct linked *linked = (struct linked *)context + group->rank;
    collective all[] = { all_reduces, reduce_scatters, all_gathers, broadcasts };
    struct arena arena = { 0 };
    bool good = !group_use(group, &linked->device);
    good = good && group->is_on_device == (group->size > 1);
    for (int i = 0; i < 4 && good; i++)
        good = all[i](group, &arena, DTYPE_F32, 2999);
    for (int i = 0; i < GROUP_NUMBERS && good && i != GROUP_ALL_REDUCE; i++)
        good = group->traffic[i].bytes == linked->inner.traffic[i].bytes;
    arena_release(&arena);
    group_close(group);
    return good && (group->size == 1 || linked->id == (char)0xA5);
}

TEST(group_uses_the_devices_own_collectives_where_it_has_them)
{
    strange = *gradient_device()->backend;
    strange.group_id = draw_id;
    strange.group_open = open_linked;
    strange.group_close = do_nothing;
    strange.group_wait = do_nothing;
    strange.all_reduce = all_reduce;
    strange.reduce_scatter = reduce_scatter;
    strange.all_gather = all_gather;
    strange.broadcast = broadcast;
    for (int s = 0; s < SIZES; s++) {
        struct linked linked[RANKS_MOST];
        struct group inner[RANKS_MOST];
        struct group_threads *shared;
        CHECK(!group_threads_open(&shared, inner, sizes[s]));
        for (int i = 0; i < sizes[s]; i++) {
            linked[i] = (struct linked){ .device = { .backend = &strange }, .inner = inner[i] };
            linked[i].device.own = &linked[i];
        }
        CHECK(ranks_run(sizes[s], by_the_device, linked));
        group_threads_close(shared);
    }
}

// --- bytes, and failures -----------------------------------------------------

static bool count_bytes(struct group *group, void *context)
{
    static const int64_t elements = 8 * 3 * GROUP_ALIGNMENT; // equal parts for 2, 3, 4 and 8 ranks
    struct arena arena = { 0 };
    struct tensor tensor = filled(group, &arena, DTYPE_F32, elements);
    int64_t others = elements * 4 * (group->size - 1) / group->size;
    (void)context;
    group_all_reduce(group, tensor);
    group_reduce_scatter(group, tensor);
    group_all_gather(group, tensor);
    bool good = !group_wait(group) && group->traffic[GROUP_ALL_REDUCE].bytes == 2 * others &&
                group->traffic[GROUP_REDUCE_SCATTER].bytes == others &&
                group->traffic[GROUP_ALL_GATHER].bytes == others &&
                group->traffic[GROUP_ALL_REDUCE].calls == 1;
    arena_release(&arena);
    return good;
}

TEST(group_counts_the_bytes_of_a_ring)
{
    for (int i = 0; i < SIZES; i++)
        CHECK(ranks_run(sizes[i], count_bytes, NULL));
}

static bool fail_on_one(struct group *group, void *context)
{
    double value = 1;
    (void)context;
    if (group->rank == 2) {
        group_abort(group, ERR_INPUT);
        return true;
    }
    return group_sum(group, &value, 1) == ERR_UNAVAILABLE;
}

TEST(group_of_threads_ends_when_one_fails)
{
    CHECK(ranks_run(4, fail_on_one, NULL));
}
