// SPDX-License-Identifier: Apache-2.0
// Bytes as lengths, a trainer, a window and batch sizes: nothing is packed twice or over capacity,
// and every token is used, lost or unseen.

#include "core/data/packing.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(const struct packing *packing, const struct packing_rule *rule,
                  const struct packing_setup *setup, int64_t tokens)
{
    int64_t limit = setup->window * (rule->fills_micro_batch ? setup->micro_batch : 1);
    int64_t held = 0;
    for (size_t row = 0; row < packing->rows; row++) {
        int64_t used = 0;
        for (size_t i = packing->starts[row]; i < packing->starts[row + 1]; i++) {
            const struct packing_piece *piece = &packing->pieces[i];
            if (piece->size < 1 || piece->labelled < 0 || piece->labelled > piece->size)
                abort();
            used += piece->size - rule->shift;
            held += piece->size;
        }
        if (used > limit)
            abort();
    }
    if (held + packing->sums.lost_tokens != tokens ||
        packing->sums.fewest_rows > (int64_t)packing->rows ||
        packing->sums.useful_tokens > packing->sums.processed_tokens)
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    size_t trainers = 0;
    while (packing_trainers[trainers].name)
        trainers++;
    if (size < 6)
        return 0;
    struct arena arena = { 0 };
    struct packing_rule rule =
        packing_rule(&packing_trainers[data[0] % trainers], (enum batching)(data[1] % 4));
    struct packing_setup setup = { .window = 2 + data[2] + 16 * (data[3] & 63),
                                   .micro_batch = 1 + data[4] % 9,
                                   .accumulation = 1 + data[5] % 3,
                                   .ranks = 1 + data[5] / 64,
                                   .seed = data[5] };
    struct lengths list = { .arena = &arena };
    int64_t tokens = 0;
    for (size_t i = 6; i + 1 < size; i += 2) {
        int64_t length = data[i] + (data[i + 1] & 7) * 256;
        lengths_add(&list, length, length * (data[i + 1] >> 5) / 7);
        tokens += length;
    }
    struct packing packing;
    if (!packing_plan(&packing, &arena, &list, &rule, &setup))
        check(&packing, &rule, &setup, tokens);
    arena_release(&arena);
    return 0;
}
