// SPDX-License-Identifier: Apache-2.0
// Each trainer's packing against a second, slow and direct implementation of the trainer's
// behaviour: lists of lists, linear searches, no trees.

#include "core/data/packing.h"

#include "test/real_lengths.h"

#include <stdlib.h>
#include <string.h>

// --- slow reference implementations ------------------------------------------------------------

struct bin {
    int64_t used, since; // since: when it reached this fill
    size_t count;
    uint32_t items[4096];
};

struct bins {
    struct bin *at;
    size_t count;
};

static struct bins new_bins(size_t most)
{
    return (struct bins){ .at = malloc(most * sizeof(struct bin)) };
}

static void put(struct bins *bins, size_t bin, uint32_t item, int64_t size)
{
    static int64_t clock;
    if (bin == bins->count) {
        bins->count++;
        bins->at[bin].used = 0;
        bins->at[bin].count = 0;
    }
    bins->at[bin].items[bins->at[bin].count++] = item;
    bins->at[bin].used += size;
    bins->at[bin].since = ++clock;
}

static const int64_t *sizes_to_sort;

static int by_falling_size(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (sizes_to_sort[i] != sizes_to_sort[j])
        return sizes_to_sort[i] > sizes_to_sort[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void slow_best_fit(struct bins *bins, const int64_t *sizes, const uint32_t *items,
                          size_t count, int64_t capacity)
{
    uint32_t *order = malloc(count * sizeof *order);
    memcpy(order, items, count * sizeof *order);
    sizes_to_sort = sizes;
    qsort(order, count, sizeof *order, by_falling_size);
    size_t first = bins->count;
    for (size_t i = 0; i < count; i++) {
        size_t best = SIZE_MAX;
        for (size_t b = first; b < bins->count; b++) {
            const struct bin *bin = &bins->at[b];
            if (bin->used + sizes[order[i]] > capacity)
                continue;
            if (best == SIZE_MAX || bin->used > bins->at[best].used ||
                (bin->used == bins->at[best].used && bin->since < bins->at[best].since))
                best = b;
        }
        put(bins, best == SIZE_MAX ? bins->count : best, order[i], sizes[order[i]]);
    }
    free(order);
}

static void slow_first_fit(struct bins *bins, const int64_t *sizes, const uint32_t *items,
                           size_t count, int64_t capacity, size_t bin_examples)
{
    size_t first = bins->count;
    for (size_t i = 0; i < count; i++) {
        size_t b = first;
        while (b < bins->count && (bins->at[b].used + sizes[items[i]] > capacity ||
                                   (bin_examples && bins->at[b].count >= bin_examples)))
            b++;
        put(bins, b, items[i], sizes[items[i]]);
    }
}

// A sorted list; removes the largest item that fits until none does, the last of equal ones first.
static void slow_knapsack(struct bins *bins, const int64_t *sizes, const uint32_t *items,
                          size_t count, int64_t capacity)
{
    bool *gone = calloc(count, sizeof *gone);
    for (size_t left = count; left > 0;) {
        size_t bin = bins->count;
        int64_t space = capacity;
        for (;;) {
            size_t best = SIZE_MAX;
            for (size_t i = 0; i < count; i++)
                if (!gone[i] && sizes[items[i]] <= space &&
                    (best == SIZE_MAX || sizes[items[i]] >= sizes[items[best]]))
                    best = i;
            if (best == SIZE_MAX)
                break;
            gone[best] = true;
            left--;
            space -= sizes[items[best]];
            put(bins, bin, items[best], sizes[items[best]]);
        }
    }
    free(gone);
}

static void slow_volume(struct bins *bins, const int64_t *sizes, size_t count, int64_t capacity)
{
    uint32_t *chunk = malloc((count + 1) * sizeof *chunk);
    size_t left_over = 0;
    for (size_t start = 0; start < count; start += 1000) {
        for (size_t i = start; i < count && i < start + 1000; i++)
            chunk[left_over++] = (uint32_t)i;
        // Equal sizes keep the order of the list, which begins with the items left over.
        for (size_t i = 1; i < left_over; i++)
            for (size_t j = i; j > 0 && sizes[chunk[j]] > sizes[chunk[j - 1]]; j--) {
                uint32_t swap = chunk[j];
                chunk[j] = chunk[j - 1];
                chunk[j - 1] = swap;
            }
        size_t first = bins->count;
        for (size_t i = 0; i < left_over; i++) {
            size_t best = bins->count;
            for (size_t b = first; b < bins->count; b++)
                if (bins->at[b].used + sizes[chunk[i]] <= capacity &&
                    (best == bins->count || bins->at[b].used > bins->at[best].used))
                    best = b;
            put(bins, best, chunk[i], sizes[chunk[i]]);
        }
        left_over = 0;
        if (start + 1000 < count) {
            const struct bin *last = &bins->at[--bins->count];
            for (size_t i = 0; i < last->count; i++)
                chunk[left_over++] = last->items[i];
        }
    }
    free(chunk);
}

static void slow_next_fit(struct bins *bins, const int64_t *sizes, const uint32_t *items,
                          size_t count, int64_t capacity)
{
    for (size_t i = 0; i < count; i++) {
        bool fits = bins->count && bins->at[bins->count - 1].used + sizes[items[i]] <= capacity;
        put(bins, fits ? bins->count - 1 : bins->count, items[i], sizes[items[i]]);
    }
}

// --- comparing ---------------------------------------------------------------

static struct packing plan(const struct lengths *list, const struct packing_rule *rule,
                           const struct packing_setup *setup)
{
    struct packing packing;
    CHECK(packing_plan(&packing, &test_arena, list, rule, setup) == OK);
    return packing;
}

// Rows in the order in which they are opened, so that they can be compared one by one.
static struct packing_rule unshuffled(const char *stack, const char *packer)
{
    const struct packing_trainer *trainer;
    CHECK(packing_trainer_find(&trainer, stack, packer) == OK);
    struct packing_rule rule = packing_rule(trainer, BATCHING_PACKED);
    rule.shuffles_rows = false;
    return rule;
}

static bool same_rows(const struct packing *packing, const struct bins *bins)
{
    if (packing->rows != bins->count)
        return false;
    for (size_t row = 0; row < packing->rows; row++) {
        size_t first = packing->starts[row], count = packing->starts[row + 1] - first;
        if (count != bins->at[row].count)
            return false;
        for (size_t i = 0; i < count; i++)
            if (packing->pieces[first + i].example != bins->at[row].items[i])
                return false;
    }
    return true;
}

struct sample {
    struct lengths list;
    int64_t *sizes;  // cut to the window
    uint32_t *items; // 0, 1, 2 …
    size_t count;
};

static struct sample sample(const char *path, int64_t window)
{
    struct sample s = { .list = real_lengths(path) };
    s.count = s.list.count;
    s.sizes = ARENA_NEW(&test_arena, int64_t, s.count);
    s.items = ARENA_NEW(&test_arena, uint32_t, s.count);
    for (size_t i = 0; i < s.count; i++) {
        s.sizes[i] = s.list.items[i].tokens < window ? s.list.items[i].tokens : window;
        s.items[i] = (uint32_t)i;
    }
    return s;
}

static const char *const lists[] = { "test/data/gsm8k_lengths.csv", "test/data/c4_lengths.csv" };
static const int64_t windows[] = { 512, 1000, 2048, 4096 };
#define EACH_CASE(path, window)                                                 \
    for (int l_ = 0; l_ < 2; l_++)                                              \
        for (int w_ = 0; w_ < 4; w_++)                                          \
            for (const char *path = lists[l_], *once = path; once; once = NULL) \
                for (int64_t window = windows[w_], again_ = 1; again_; again_ = 0)

static size_t chunk_of(const struct sample *s, size_t start)
{
    return s->count - start < 1000 ? s->count - start : 1000;
}

// --- trainers ----------------------------------------------------------------

TEST(packing_by_trl_is_best_fit_decreasing_in_chunks_of_a_thousand)
{
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, window);
        struct bins bins = new_bins(s.count);
        for (size_t start = 0; start < s.count; start += 1000)
            slow_best_fit(&bins, s.sizes, s.items + start, chunk_of(&s, start), window);
        struct packing_rule rule = unshuffled("hf", "bfd");
        struct packing got = plan(&s.list, &rule, &(struct packing_setup){ .window = window });
        CHECK(same_rows(&got, &bins));
        free(bins.at);
    }
}

TEST(packing_by_our_engine_is_best_fit_decreasing_over_the_whole_set)
{
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, window);
        struct bins bins = new_bins(s.count);
        slow_best_fit(&bins, s.sizes, s.items, s.count, window);
        struct packing_rule rule = unshuffled("native", NULL);
        struct packing got = plan(&s.list, &rule, &(struct packing_setup){ .window = window });
        CHECK(same_rows(&got, &bins));
        free(bins.at);
    }
}

TEST(packing_by_trl_split_keeps_every_token)
{
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, INT32_MAX);
        int64_t *sizes = ARENA_NEW(&test_arena, int64_t, 1 << 16);
        uint32_t *items = ARENA_NEW(&test_arena, uint32_t, 1 << 16);
        struct bins bins = new_bins(s.count * 4);
        size_t count = 0;
        for (size_t start = 0; start < s.count; start += 1000) {
            size_t first = count;
            for (size_t i = start; i < start + chunk_of(&s, start); i++)
                for (int64_t left = s.sizes[i]; left > 0; left -= window, count++) {
                    sizes[count] = left < window ? left : window;
                    items[count] = (uint32_t)count;
                }
            slow_best_fit(&bins, sizes, items + first, count - first, window);
        }
        struct packing_rule rule = unshuffled("hf", "bfd-split");
        struct packing got = plan(&s.list, &rule, &(struct packing_setup){ .window = window });
        CHECK(got.rows == bins.count);
        for (size_t row = 0; row < got.rows && row < bins.count; row++) {
            int64_t used = 0;
            for (size_t i = got.starts[row]; i < got.starts[row + 1]; i++)
                used += got.pieces[i].size;
            CHECK(used == bins.at[row].used);
        }
        CHECK(got.sums.lost_tokens == 0);
        free(bins.at);
    }
}

TEST(packing_by_trl_wrapped_leaves_one_short_row_a_chunk)
{
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, INT32_MAX);
        size_t rows = 0;
        int64_t all = 0;
        for (size_t start = 0; start < s.count; start += 1000) {
            int64_t tokens = 0;
            for (size_t i = start; i < start + chunk_of(&s, start); i++)
                tokens += s.sizes[i];
            rows += (size_t)((tokens + window - 1) / window);
            all += tokens;
        }
        struct packing_rule rule = unshuffled("hf", "wrapped");
        struct packing got = plan(&s.list, &rule, &(struct packing_setup){ .window = window });
        CHECK(got.rows == rows && got.sums.useful_tokens == all);
        for (size_t i = 0; i < got.count; i++)
            CHECK(got.batches[i].attended == got.batches[i].width * got.batches[i].width);
    }
}

TEST(packing_by_axolotl_is_first_fit_in_the_samplers_order)
{
    EACH_CASE(path, window)
    for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch += 3) {
        struct sample s = sample(path, INT32_MAX);
        packing_shuffle(s.items, s.count, 7);
        size_t kept = 0; // longer ones were dropped
        for (size_t i = 0; i < s.count; i++)
            if (s.sizes[s.items[i]] <= window)
                s.items[kept++] = s.items[i];
        struct bins bins = new_bins(s.count);
        slow_first_fit(&bins, s.sizes, s.items, kept, window * micro_batch, 200);
        struct packing_rule rule = unshuffled("axolotl", NULL);
        struct packing_setup setup = { .window = window, .micro_batch = micro_batch, .seed = 7 };
        struct packing got = plan(&s.list, &rule, &setup);
        CHECK(same_rows(&got, &bins));
        CHECK(got.sums.dropped_examples == (int64_t)(s.count - kept));
        CHECK(got.sums.steps == (int64_t)bins.count);
        free(bins.at);
    }
}

TEST(packing_by_axolotl_restarts_every_hundred_thousand_and_limits_a_bin)
{
    struct lengths list = { .arena = &test_arena };
    for (int i = 0; i < 100300; i++)
        lengths_add(&list, 1, 1);
    struct packing_rule rule = unshuffled("axolotl", NULL);
    struct packing got = plan(&list, &rule, &(struct packing_setup){ .window = 512 });
    CHECK(got.rows == 500 + 2); // 200 examples a bin, and 300 in the second group
    CHECK(got.starts[got.rows] - got.starts[got.rows - 1] == 100);
}

TEST(packing_by_llama_factory_is_a_greedy_knapsack)
{
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, window - 1);
        struct bins bins = new_bins(s.count);
        for (size_t start = 0; start < s.count; start += 1000)
            slow_knapsack(&bins, s.sizes, s.items + start, chunk_of(&s, start), window - 1);
        struct packing_rule rule = unshuffled("llama-factory", NULL);
        struct packing got = plan(&s.list, &rule, &(struct packing_setup){ .window = window });
        CHECK(same_rows(&got, &bins));
        CHECK(got.sums.worst.width == window);
        free(bins.at);
    }
}

TEST(packing_by_nemo_counts_one_token_less_and_skips_long_examples)
{
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, INT32_MAX);
        packing_shuffle(s.items, s.count, 3);
        size_t kept = 0;
        for (size_t i = 0; i < s.count; i++)
            if (--s.sizes[s.items[i]] <= window)
                s.items[kept++] = s.items[i];
        struct bins shuffled = new_bins(s.count), decreasing = new_bins(s.count);
        slow_first_fit(&shuffled, s.sizes, s.items, kept, window, 0);
        struct packing_rule rule = unshuffled("nemo", "first-fit-shuffle");
        struct packing_setup setup = { .window = window, .seed = 3 };
        struct packing got = plan(&s.list, &rule, &setup);
        CHECK(same_rows(&got, &shuffled));

        sizes_to_sort = s.sizes;
        qsort(s.items, kept, sizeof *s.items, by_falling_size);
        slow_first_fit(&decreasing, s.sizes, s.items, kept, window, 0);
        rule = unshuffled("nemo", "first-fit-decreasing");
        got = plan(&s.list, &rule, &setup);
        CHECK(same_rows(&got, &decreasing));
        CHECK(got.sums.dropped_examples == (int64_t)(s.count - kept));
        free(shuffled.at);
        free(decreasing.at);
    }
}

TEST(packing_by_nemo_aligns_examples_before_it_packs)
{
    struct sample s = sample("test/data/gsm8k_lengths.csv", INT32_MAX);
    for (size_t i = 0; i < s.count; i++)
        s.sizes[i] = (s.sizes[i] - 1 + 15) / 16 * 16;
    sizes_to_sort = s.sizes;
    qsort(s.items, s.count, sizeof *s.items, by_falling_size);
    struct bins bins = new_bins(s.count);
    slow_first_fit(&bins, s.sizes, s.items, s.count, 2048, 0);
    struct packing_rule rule = unshuffled("nemo", "first-fit-decreasing");
    rule.align = 16;
    struct packing got = plan(&s.list, &rule, &(struct packing_setup){ .window = 2048 });
    CHECK(same_rows(&got, &bins));
    free(bins.at);
}

TEST(packing_by_ms_swift_moves_the_last_bin_to_the_next_chunk)
{
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, INT32_MAX);
        struct lengths list = { .arena = &test_arena };
        size_t kept = 0;
        for (size_t i = 0; i < s.count; i++)
            if (s.sizes[i] <= window) {
                lengths_add(&list, s.sizes[i], s.sizes[i]);
                s.sizes[kept++] = s.sizes[i];
            }
        struct bins bins = new_bins(s.count);
        slow_volume(&bins, s.sizes, kept, window);
        struct packing_rule rule = unshuffled("ms-swift", NULL);
        rule.shuffles_examples = false;
        struct packing got = plan(&list, &rule, &(struct packing_setup){ .window = window });
        CHECK(same_rows(&got, &bins));
        free(bins.at);
    }
}

TEST(packing_by_torchtune_is_next_fit_in_the_files_order)
{
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, window);
        struct bins bins = new_bins(s.count);
        slow_next_fit(&bins, s.sizes, s.items, s.count, window);
        struct packing_rule rule = unshuffled("torchtune", NULL);
        struct packing got = plan(&s.list, &rule, &(struct packing_setup){ .window = window });
        CHECK(same_rows(&got, &bins));
        free(bins.at);
    }
}

// --- padding -----------------------------------------------------------------

TEST(packing_none_pads_every_batch_to_its_longest)
{
    const struct packing_trainer *trainer;
    packing_trainer_find(&trainer, "hf", NULL);
    struct packing_rule rule = packing_rule(trainer, BATCHING_LONGEST);
    EACH_CASE(path, window)
    {
        struct sample s = sample(path, window);
        packing_shuffle(s.items, s.count, 11);
        struct packing_setup setup = { .window = window, .micro_batch = 16, .seed = 11 };
        struct packing got = plan(&s.list, &rule, &setup);
        CHECK(got.count == (s.count + 15) / 16 && got.sums.steps == (int64_t)got.count);
        int64_t processed = 0;
        for (size_t b = 0; b < got.count; b++) {
            int64_t longest = 0, rows = 0, tokens = 0, squares = 0;
            for (size_t i = b * 16; i < s.count && i < b * 16 + 16; i++, rows++) {
                int64_t size = s.sizes[s.items[i]];
                longest = size > longest ? size : longest;
                tokens += size;
                squares += size * size;
            }
            const struct packing_batch *batch = &got.batches[b];
            CHECK(batch->rows == rows && batch->width == longest && batch->tokens == tokens);
            CHECK(batch->squares == squares && batch->attended == rows * longest * longest);
            processed += rows * longest;
        }
        CHECK(got.sums.processed_tokens == processed);
    }
}

// The order of transformers' sampler for a permutation, step by step.
TEST(packing_grouped_is_the_order_of_transformers_sampler)
{
    for (int64_t batch = 2; batch <= 128; batch *= 8) {
        struct sample s =
            sample("test/data/gsm8k_lengths.csv", 400); // several have the largest length
        packing_shuffle(s.items, s.count, 5);
        int64_t mega = (int64_t)s.count / (batch * 4);
        mega = (mega < 50 ? mega : 50) * batch;
        uint32_t *order = ARENA_NEW(&test_arena, uint32_t, s.count);
        memcpy(order, s.items, s.count * sizeof *order);
        size_t best = 0;
        for (size_t first = 0; first < s.count; first += (size_t)mega) {
            size_t end = first + (size_t)mega < s.count ? first + (size_t)mega : s.count;
            for (size_t i = first + 1; i < end; i++)
                for (size_t j = i; j > first && s.sizes[order[j]] > s.sizes[order[j - 1]]; j--) {
                    uint32_t swap = order[j];
                    order[j] = order[j - 1];
                    order[j - 1] = swap;
                }
            if (s.sizes[order[first]] > s.sizes[order[best]])
                best = first;
        }
        uint32_t swap = order[0];
        order[0] = order[best];
        order[best] = swap;

        const struct packing_trainer *trainer;
        packing_trainer_find(&trainer, "hf", NULL);
        struct packing_rule rule = packing_rule(trainer, BATCHING_GROUPED);
        struct packing_setup setup = { .window = 400, .micro_batch = batch, .seed = 5 };
        struct packing got = plan(&s.list, &rule, &setup);
        CHECK(got.rows == s.count);
        bool same = true;
        for (size_t i = 0; i < s.count; i++)
            same = same && got.pieces[i].example == order[i];
        CHECK(same);
        CHECK(got.batches[0].width == 400);
    }
}

TEST(packing_of_the_measured_runs_has_their_steps_and_tokens)
{
    // Two measured runs of transformers' Trainer on GSM8K with the official Llama 3.2 template,
    // which adds 25 tokens to each record of this list: 468 steps, 1,446,988 useful tokens.
    struct lengths list = real_lengths("test/data/gsm8k_lengths.csv");
    for (size_t i = 0; i < list.count; i++)
        list.items[i].tokens += 25;
    const struct packing_trainer *trainer;
    packing_trainer_find(&trainer, "hf", NULL);
    struct packing_setup setup = { .window = 2048, .micro_batch = 16, .seed = 1 };
    struct packing_rule random = packing_rule(trainer, BATCHING_LONGEST);
    struct packing_rule grouped = packing_rule(trainer, BATCHING_GROUPED);
    struct packing a = plan(&list, &random, &setup), b = plan(&list, &grouped, &setup);
    CHECK(a.sums.steps == 468 && b.sums.steps == 468);
    CHECK(a.sums.useful_tokens == 1446988 && b.sums.useful_tokens == 1446988);
    CHECK(a.sums.processed_tokens > b.sums.processed_tokens * 5 / 4);
    CHECK(a.sums.distinct_widths > 100);
}

static double fill(const struct lengths *list, const char *stack, const char *packer,
                   enum batching batching)
{
    const struct packing_trainer *trainer;
    packing_trainer_find(&trainer, stack, packer);
    struct packing_rule rule = packing_rule(trainer, batching);
    rule.drops_last = false; // the survey counts every row
    struct packing_setup setup = { .window = 4096, .micro_batch = 8, .seed = 1 };
    if (batching == BATCHING_PACKED)
        setup.micro_batch = 1;
    struct packing got = plan(list, &rule, &setup);
    double share = batching == BATCHING_PACKED ? got.sums.fill : 1 - got.sums.padding_share;
    return 100 * share;
}

TEST(packing_of_gsm8k_fills_rows_as_in_the_survey_of_trainers)
{
    // Simulated in Python for that survey at 4,096 tokens, batches of 8, other random orders.
    struct lengths list = real_lengths("test/data/gsm8k_lengths.csv");
    CHECK_NEAR(fill(&list, "hf", NULL, BATCHING_MAX), 4.1, 0.01);
    CHECK_NEAR(fill(&list, "hf", NULL, BATCHING_LONGEST), 64.2, 0.01);
    CHECK_NEAR(fill(&list, "hf", NULL, BATCHING_GROUPED), 98.1, 0.002);
    CHECK_NEAR(fill(&list, "hf", "bfd", BATCHING_PACKED), 98.3, 0.0006);
    CHECK_NEAR(fill(&list, "hf", "wrapped", BATCHING_PACKED), 98.6, 0.0006);
    CHECK_NEAR(fill(&list, "native", NULL, BATCHING_PACKED), 99.6, 0.0006);
    CHECK_NEAR(fill(&list, "axolotl", NULL, BATCHING_PACKED), 99.2, 0.002);
    CHECK_NEAR(fill(&list, "llama-factory", NULL, BATCHING_PACKED), 98.3, 0.0006);
    CHECK_NEAR(fill(&list, "nemo", "first-fit-shuffle", BATCHING_PACKED), 99.2, 0.002);
    CHECK_NEAR(fill(&list, "nemo", "first-fit-decreasing", BATCHING_PACKED), 99.6, 0.0006);
    CHECK_NEAR(fill(&list, "torchtune", NULL, BATCHING_PACKED), 97.7, 0.0006);
}

// --- properties --------------------------------------------------------------------

TEST(packing_keeps_every_token_that_it_does_not_report_lost)
{
    for (const struct packing_trainer *t = packing_trainers; t->name; t++)
        for (enum batching batching = BATCHING_MAX; batching <= BATCHING_PACKED; batching++)
            EACH_CASE(path, window)
            {
                struct lengths list = real_lengths(path);
                int64_t tokens = 0;
                for (size_t i = 0; i < list.count; i++)
                    tokens += list.items[i].tokens;
                struct packing_rule rule = packing_rule(t, batching);
                struct packing_setup setup = { .window = window, .micro_batch = 2, .seed = 9 };
                struct packing got = plan(&list, &rule, &setup);
                int64_t kept = tokens - got.sums.lost_tokens - got.sums.unseen_tokens;
                CHECK(got.sums.useful_tokens == kept - rule.shift * got.sums.examples);
                CHECK(got.sums.useful_tokens <= got.sums.processed_tokens);
                CHECK(got.sums.fewest_rows <= (int64_t)got.rows);
                int64_t limit = window * (rule.width == PACKING_WIDTH_FLAT ? 2 : 1) + 64;
                for (size_t i = 0; i < got.count; i++)
                    CHECK(got.batches[i].width <= limit && got.batches[i].width > 0);
            }
}

TEST(packing_counts_labels_at_the_end_of_an_example)
{
    struct lengths list = { .arena = &test_arena };
    lengths_add(&list, 100, 30);
    const struct packing_trainer *trainer;
    packing_trainer_find(&trainer, "hf", "wrapped");
    struct packing_rule rule = packing_rule(trainer, BATCHING_PACKED);
    rule.shuffles_rows = false;
    struct packing got = plan(&list, &rule, &(struct packing_setup){ .window = 80 });
    CHECK(got.rows == 2 && got.batches[0].labelled == 10 && got.batches[1].labelled == 20);

    rule = unshuffled("hf", "bfd");
    got = plan(&list, &rule, &(struct packing_setup){ .window = 80 });
    CHECK(got.sums.labelled_tokens == 10 && got.sums.cut_examples == 1);

    // LLaMA-Factory shortens a long prompt and a long answer by their share: 59 × 30 / 100.
    packing_trainer_find(&trainer, "llama-factory", NULL);
    rule = packing_rule(trainer, BATCHING_PACKED);
    got = plan(&list, &rule, &(struct packing_setup){ .window = 60 });
    CHECK(got.sums.labelled_tokens == 17 && got.sums.useful_tokens == 59);
}

TEST(packing_ends_an_epoch_as_the_trainer_does)
{
    struct lengths list = { .arena = &test_arena };
    for (int i = 0; i < 103; i++)
        lengths_add(&list, 10 + i, 5);
    const struct packing_trainer *hf, *tune;
    packing_trainer_find(&hf, "hf", NULL);
    packing_trainer_find(&tune, "torchtune", NULL);
    struct packing_rule rule = packing_rule(hf, BATCHING_LONGEST);
    struct packing_setup setup = { .window = 512, .micro_batch = 4, .accumulation = 3 };
    struct packing got = plan(&list, &rule, &setup); // 25 full micro-batches and one of three
    CHECK(got.count == 26 && got.sums.steps == 9 && got.batches[25].rows == 3);

    setup.ranks = 4; // accelerate completes the last batch and adds two more
    got = plan(&list, &rule, &setup);
    CHECK(got.count == 28 && got.sums.steps == 3 && got.batches[25].rows == 4);
    CHECK(got.sums.rows == 112 && got.sums.examples == 103);

    rule = packing_rule(tune, BATCHING_LONGEST);
    got = plan(&list, &rule, &setup); // 25 whole ones, 6 a rank, 2 whole steps
    CHECK(got.count == 24 && got.sums.steps == 2);
    CHECK(got.sums.unseen_tokens > 0);
}

TEST(packing_rounds_widths_up)
{
    struct lengths list = { .arena = &test_arena };
    lengths_add(&list, 65, 65);
    lengths_add(&list, 3, 3);
    const struct packing_trainer *trainer;
    packing_trainer_find(&trainer, "axolotl", NULL);
    struct packing_rule rule = packing_rule(trainer, BATCHING_LONGEST);
    struct packing_setup setup = { .window = 512, .micro_batch = 2 };
    CHECK(plan(&list, &rule, &setup).batches[0].width == 128);
    setup.multiple = 10;
    CHECK(plan(&list, &rule, &setup).batches[0].width == 70);
}

TEST(packing_never_beats_its_lower_bound)
{
    static const int32_t sizes[] = { 6, 6, 6, 5, 5, 5, 4, 4, 4 };
    CHECK(packing_fewest(sizes, 9, 10, &test_arena) == 5); // three pairs 6 + 4, then 5 + 5 and 5
    static const int32_t wide[] = { 51, 51, 51, 51 };
    CHECK(packing_fewest(wide, 4, 100, &test_arena) == 4); // the sum alone would say 3
    CHECK(packing_fewest(wide, 0, 100, &test_arena) == 0);
}

TEST(packing_accepts_an_empty_dataset)
{
    struct lengths none = { .arena = &test_arena }, empty = { .arena = &test_arena };
    lengths_add(&empty, 0, 0);
    for (const struct packing_trainer *t = packing_trainers; t->name; t++)
        for (enum batching batching = BATCHING_MAX; batching <= BATCHING_PACKED; batching++) {
            struct packing_rule rule = packing_rule(t, batching);
            struct packing_setup setup = { .window = 512, .micro_batch = 3, .ranks = 2 };
            CHECK(plan(&none, &rule, &setup).sums.steps == 0);
            struct packing got = plan(&empty, &rule, &setup);
            CHECK(got.sums.steps == 0 && got.sums.dropped_examples == 1);
        }
}

TEST(packing_refuses_unknown_trainers_and_impossible_sizes)
{
    struct lengths list = { .arena = &test_arena };
    struct packing packing;
    const struct packing_trainer *trainer;
    CHECK(packing_trainer_find(&trainer, "axolotel", NULL) == ERR_USAGE);
    CHECK(strstr(error_text(), "did you mean axolotl"));
    CHECK(packing_trainer_find(&trainer, "nemo", "bfd") == ERR_USAGE);
    CHECK(strstr(error_text(), "its packers are first-fit-shuffle, first-fit-decreasing"));
    CHECK(packing_trainer_find(&trainer, "hf", NULL) == OK);
    struct packing_rule rule = packing_rule(trainer, BATCHING_PACKED);
    struct packing_setup setup = { .window = 1 };
    CHECK(packing_plan(&packing, &test_arena, &list, &rule, &setup) == ERR_USAGE);
    setup.window = (int64_t)1 << 40;
    CHECK(packing_plan(&packing, &test_arena, &list, &rule, &setup) == ERR_USAGE);
}

TEST(packing_of_little_input_into_countless_pieces_is_refused)
{
    struct lengths list = { .arena = &test_arena };
    struct packing packing;
    const struct packing_trainer *trainer;
    for (int i = 0; i < 3000; i++) // rows of a megabyte with eight images each
        lengths_add(&list, 131072, 131072);
    const char *const packers[] = { "bfd-split", "wrapped" };
    for (int i = 0; i < 2; i++) {
        CHECK(packing_trainer_find(&trainer, "hf", packers[i]) == OK);
        struct packing_rule rule = packing_rule(trainer, BATCHING_PACKED);
        struct packing_setup setup = { .window = 2 };
        CHECK(packing_plan(&packing, &test_arena, &list, &rule, &setup) == ERR_USAGE);
        CHECK(strstr(error_text(), "into 196608000 pieces; give a larger --context"));
        setup.window = 2048;
        CHECK(packing_plan(&packing, &test_arena, &list, &rule, &setup) == OK);
        CHECK(packing.rows == 192000);
    }
}

// --- first sights ------------------------------------------------------------

static struct packing_sights sights_of(const struct lengths *list, enum batching batching,
                                       int64_t rows, int64_t multiple, bool twice)
{
    const struct packing_trainer *trainer;
    CHECK(!packing_trainer_find(&trainer, "hf", NULL));
    struct packing_rule rule = packing_rule(trainer, batching);
    struct packing_setup setup = {
        .window = 4096, .micro_batch = rows, .multiple = multiple, .seed = 1
    };
    struct packing first = plan(list, &rule, &setup), second;
    setup.seed = 2;
    second = plan(list, &rule, &setup);
    struct packing_sights sights;
    packing_count_sights(&sights, &first, twice ? &second : NULL);
    return sights;
}

TEST(packing_meets_equal_lengths_and_rows_padded_to_the_context_once)
{
    struct lengths equal = { .arena = &test_arena }, falling = { .arena = &test_arena };
    for (int i = 0; i < 800; i++) {
        lengths_add(&equal, 300, 300);
        lengths_add(&falling, 1000 - i, 1);
    }
    struct packing_sights one = sights_of(&equal, BATCHING_LONGEST, 8, 0, true);
    CHECK(one.epoch == 100 && packing_widths_seen(&one, 1) == 1);
    CHECK(packing_widths_seen(&one, 100) == 1 && packing_widths_seen(&one, 1e6) == 1);
    one = sights_of(&falling, BATCHING_MAX, 8, 0, false);
    CHECK(packing_widths_seen(&one, 100) == 1);
    one = sights_of(&falling, BATCHING_LONGEST, 1, 0, true); // every row has its own width
    for (int i = 1; i <= 800; i++)
        CHECK_NEAR(packing_widths_seen(&one, i), i, 1e-9);
    CHECK(packing_widths_seen(&one, 1600) == 800 && packing_widths_seen(&one, 1e5) == 800);
    one = sights_of(&falling, BATCHING_LONGEST, 1, 50, false);
    CHECK(packing_widths_seen(&one, 800) == 16); // 201 to 1,000 in steps of 50
    CHECK(packing_widths_seen(&one, 0) == 0);
}

TEST(packing_meets_as_many_widths_as_samples_of_equally_likely_ones_do)
{
    enum { WIDTHS = 200, TIMES = 40 };
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < WIDTHS * TIMES; i++)
        lengths_add(&lengths, 1 + i % WIDTHS, 1);
    struct packing_sights sights = sights_of(&lengths, BATCHING_LONGEST, 1, 0, false);
    for (double k = 10; k < WIDTHS * TIMES / 4; k *= 1.7) {
        double expected = WIDTHS * (1 - pow(1 - 1.0 / WIDTHS, k));
        CHECK(fabs(packing_widths_seen(&sights, k) - expected) < 4 * sqrt(WIDTHS) / 2 + 0.02 * k);
    }
    CHECK(packing_widths_seen(&sights, WIDTHS * TIMES) == WIDTHS);
}

TEST(packing_grouped_meets_its_widths_in_the_first_mega_batch)
{
    struct lengths lengths = real_lengths("test/data/gsm8k_lengths.csv");
    struct packing_sights grouped = sights_of(&lengths, BATCHING_GROUPED, 8, 0, true);
    struct packing_sights shuffled = sights_of(&lengths, BATCHING_LONGEST, 8, 0, true);
    struct packing_sights rounded = sights_of(&lengths, BATCHING_GROUPED, 8, 8, true);
    // 50 micro-batches of falling length: about every one is new; later ones meet lengths again.
    CHECK(packing_widths_seen(&grouped, 50) > 45);
    CHECK(packing_widths_seen(&grouped, 400) < 4 * packing_widths_seen(&grouped, 50));
    CHECK(packing_widths_seen(&shuffled, 50) < packing_widths_seen(&grouped, 50));
    CHECK(packing_widths_seen(&rounded, 1e4) < 0.3 * packing_widths_seen(&grouped, 1e4));
    for (int i = 1; i < grouped.count; i++)
        CHECK(grouped.micro_batches[i] > grouped.micro_batches[i - 1] &&
              grouped.widths[i] >= grouped.widths[i - 1]);
    // Further epochs add ever less.
    double epoch = grouped.epoch, second = packing_widths_seen(&grouped, 2 * epoch),
           third = packing_widths_seen(&grouped, 3 * epoch);
    CHECK(second >= packing_widths_seen(&grouped, epoch));
    CHECK(third - second <= second - packing_widths_seen(&grouped, epoch));
}
