// SPDX-License-Identifier: Apache-2.0
// Any bytes as an adapter: a config up to the first zero byte, then a safetensors file. What is
// accepted has whole factors of the config's rank.

#include "train/files/adapter_file.h"
#include "test/fuzz/mutate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(adapter_file)

static void must(bool holds, const char *claim)
{
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", claim);
    abort();
}

static void check(struct adapter_file *adapter, struct arena *arena)
{
    int64_t rank = adapter->config.rank;
    must(isfinite(adapter_file_scale(&adapter->config)), "the scale is a number");
    for (size_t i = 0; i < adapter->module_count; i++) {
        const struct adapter_file_module *m = &adapter->modules[i];
        int64_t experts = m->stack ? m->stack->experts : 1;
        must(safetensors_elements(m->a) == rank * m->in * experts, "A is (rank, in)");
        must(safetensors_elements(m->b) == rank * m->out * experts, "B is (out, rank)");
        const float *a = adapter_file_a(arena, m), *b = adapter_file_b(arena, m);
        must(!m->in || isfinite(a[rank * m->in - 1]), "A is read whole");
        must(!m->out || isfinite(b[rank * m->out - 1]), "B is read whole");
        must(adapter_file_find(adapter, m->name) == m, "found by its name");
    }
    for (size_t i = 0; i < adapter->saved_count; i++)
        must(adapter_file_find_saved(adapter, adapter->saved[i].name) == &adapter->saved[i],
             "found by its name");
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    const unsigned char *zero = size ? memchr(data, 0, size) : NULL;
    size_t config = zero ? (size_t)(zero - data) : size, from = zero ? config + 1 : size;
    struct text json = { (const char *)data, config };
    struct text file = { (const char *)data + from, size - from };
    struct adapter_file adapter = { .folder = "fuzz" };
    if (!adapter_file_read_config(&adapter.config, &arena, json, "config") &&
        !safetensors_read(&adapter.file, &arena, file, "tensors") &&
        !adapter_file_sort(&adapter, &arena))
        check(&adapter, &arena);
    arena_release(&arena);
    return 0;
}
