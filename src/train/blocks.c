// SPDX-License-Identifier: Apache-2.0
// Adds up the engine's memory by kind, allocates one block per kind, and hands out addresses.

#include "train/blocks.h"

#include <assert.h>
#include <string.h>

const char *const blocks_names[] = { "weights",   "trainables",  "gradients",
                                     "optimizer", "activations", "workspace" };

void blocks_init(struct blocks *blocks)
{
    *blocks = (struct blocks){ 0 };
}

static void note(struct blocks *blocks, enum blocks_kind kind, const char *name, int64_t bytes)
{
    int i = 0;
    while (i < blocks->entry_count &&
           (blocks->entries[i].kind != kind ||
            (blocks->entries[i].name != name && strcmp(blocks->entries[i].name, name))))
        i++;
    assert(i < BLOCKS_ENTRIES);
    if (i == blocks->entry_count)
        blocks->entries[blocks->entry_count++] = (struct blocks_entry){ kind, name, 0, 0 };
    blocks->entries[i].count++;
    blocks->entries[i].bytes += bytes;
}

void *blocks_take(struct blocks *blocks, enum blocks_kind kind, const char *name, int64_t bytes)
{
    int64_t size = (bytes + BLOCKS_ALIGNMENT - 1) / BLOCKS_ALIGNMENT * BLOCKS_ALIGNMENT;
    int64_t at = blocks->used[kind];
    blocks->used[kind] += size;
    if (blocks->at[kind]) {
        assert(blocks->used[kind] <= blocks->bytes[kind]);
        return blocks->at[kind] + at;
    }
    int64_t grown = blocks->used[kind] - blocks->bytes[kind];
    if (grown < 0 || (size && !grown))
        return NULL; // others lie there already
    note(blocks, kind, name, grown);
    blocks->bytes[kind] += grown;
    return NULL;
}

void blocks_go_on(struct blocks *blocks, enum blocks_kind kind, int64_t from)
{
    assert(from <= blocks->bytes[kind]);
    blocks->used[kind] = from;
}

struct tensor blocks_tensor(struct blocks *blocks, enum blocks_kind kind, const char *name,
                            enum dtype dtype, int64_t rows, int64_t columns)
{
    struct tensor tensor = tensor_of(NULL, dtype, rows, columns);
    tensor.at = blocks_take(blocks, kind, name, tensor_bytes(tensor));
    return tensor;
}

enum err blocks_allocate(struct blocks *blocks, struct device *device)
{
    for (int kind = 0; kind < BLOCKS_KINDS; kind++) {
        assert(!blocks->at[kind]);
        blocks->used[kind] = 0;
        void *at;
        enum err err = device->backend->allocate(device, &at, blocks->bytes[kind]);
        if (err) {
            blocks_release(blocks, device);
            return error_prefix(err, "%s: ", blocks_names[kind]);
        }
        blocks->at[kind] = at;
    }
    return OK;
}

void blocks_release(struct blocks *blocks, struct device *device)
{
    for (int kind = 0; kind < BLOCKS_KINDS; kind++) {
        if (blocks->at[kind])
            device->backend->release(device, blocks->at[kind], blocks->bytes[kind]);
        blocks->at[kind] = NULL;
    }
}

bool blocks_are_full(const struct blocks *blocks)
{
    for (int kind = 0; kind < BLOCKS_KINDS; kind++)
        if (blocks->used[kind] != blocks->bytes[kind])
            return false;
    return true;
}

int64_t blocks_total(const struct blocks *blocks)
{
    int64_t total = 0;
    for (int kind = 0; kind < BLOCKS_KINDS; kind++)
        total += blocks->bytes[kind];
    return total;
}

void blocks_print(const struct blocks *blocks, struct out *out)
{
    for (int kind = 0; kind < BLOCKS_KINDS; kind++) {
        if (!blocks->bytes[kind])
            continue;
        out_put(out, "  %-12s %12s\n", blocks_names[kind],
                text_bytes(out->arena, (double)blocks->bytes[kind]));
        for (int i = 0; i < blocks->entry_count; i++)
            if ((int)blocks->entries[i].kind == kind)
                out_put(out, "    %-22s %5lld × %12s\n", blocks->entries[i].name,
                        (long long)blocks->entries[i].count,
                        text_bytes(out->arena, (double)blocks->entries[i].bytes /
                                                   (double)blocks->entries[i].count));
    }
    out_put(out, "  %-12s %12s\n", "total", text_bytes(out->arena, (double)blocks_total(blocks)));
}
