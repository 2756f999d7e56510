// SPDX-License-Identifier: Apache-2.0
// Writes tokens and lengths to files without names, draws blocks, and copies the tokens of a block
// together.

#define _DEFAULT_SOURCE // madvise

#include "cli/dataset/spool.h"

#include "core/data/packing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RUN = 1000, BLOCK_RUNS = 1000, COPY_TOKENS = 1 << 16, ID_BYTES = sizeof(int32_t) };

struct spool_part {
    const char *folder, *name; // NULL: the spool's own
    int64_t end;               // its tokens end before this one of all
};

// --- pairs of files ----------------------------------------------------------

static enum err cannot(const char *what, const char *name)
{
    return fail(ERR_INPUT, "%s: cannot be %s: %s", name, what, strerror(errno));
}

// A file that only this process sees.
static enum err create_file(FILE **out, struct arena *arena, const char *folder, const char *name)
{
    const char *path = text_format(arena, "%s/%s", folder, name);
    *out = fopen(path, "w+b");
    return *out && !remove(path) ? OK : cannot("written", path);
}

static enum err create_tokens(struct spool_tokens *tokens, struct arena *arena, const char *folder)
{
    tokens->name = folder;
    TRY(create_file(&tokens->ids, arena, folder, "spool.ids"));
    return create_file(&tokens->learned, arena, folder, "spool.learned");
}

static enum err open_tokens(struct spool_tokens *tokens, struct arena *arena,
                            const struct spool_part *part)
{
    tokens->name = text_format(arena, "%s/%s", part->folder, part->name);
    tokens->ids = fopen(text_format(arena, "%s.ids", tokens->name), "rb");
    tokens->learned = fopen(text_format(arena, "%s.learned", tokens->name), "rb");
    return tokens->ids && tokens->learned ? OK : cannot("opened", tokens->name);
}

static void close_tokens(struct spool_tokens *tokens)
{
    if (tokens->ids)
        fclose(tokens->ids);
    if (tokens->learned)
        fclose(tokens->learned);
    *tokens = (struct spool_tokens){ 0 };
}

static enum err append(struct spool_tokens *tokens, const int32_t *ids, const uint8_t *learned,
                       size_t count)
{
    bool good = fwrite(ids, sizeof *ids, count, tokens->ids) == count &&
                fwrite(learned, 1, count, tokens->learned) == count;
    return good ? OK : cannot("written", tokens->name);
}

static enum err flush(struct spool_tokens *tokens)
{
    return fflush(tokens->ids) || fflush(tokens->learned) ? cannot("written", tokens->name) : OK;
}

static enum err read_at(FILE *file, void *to, int64_t size, int64_t offset, const char *name)
{
    for (char *at = to; size > 0;) {
        ssize_t got = pread(fileno(file), at, (size_t)size, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannot("read", name);
        if (!got)
            return fail(ERR_INPUT, "%s: was shortened while it was read", name);
        at += got, offset += got, size -= got;
    }
    return OK;
}

static enum err read_tokens(const struct spool_tokens *tokens, int64_t start, int64_t count,
                            int32_t *ids, uint8_t *learned)
{
    TRY(read_at(tokens->ids, ids, count * ID_BYTES, start * ID_BYTES, tokens->name));
    return read_at(tokens->learned, learned, count, start, tokens->name);
}

// --- adding ------------------------------------------------------------------

enum err spool_create(struct spool *spool, struct arena *arena, const char *folder)
{
    *spool =
        (struct spool){ .arena = arena, .folder = folder, .run = RUN, .most_runs = BLOCK_RUNS };
    TRY(create_tokens(&spool->own, arena, folder));
    return create_file(&spool->lengths, arena, folder, "spool.lengths");
}

void spool_release(struct spool *spool)
{
    close_tokens(&spool->own);
    if (spool->lengths)
        fclose(spool->lengths);
    spool->lengths = NULL;
    arena_release(&spool->recent_arena);
    arena_release(&spool->tally_arena);
}

static void start_run(struct spool *spool)
{
    spool->starts =
        arena_room(spool->arena, spool->starts, sizeof *spool->starts, spool->runs, &spool->room);
    spool->starts[spool->runs++] = spool->tokens;
}

enum err spool_add(struct spool *spool, const struct example *example)
{
    if (spool->count % spool->run == 0)
        start_run(spool);
    spool->recent.arena = &spool->recent_arena;
    if (spool->recent.count == LENGTHS_SIMULATED)
        lengths_fold(&spool->tally, &spool->tally_arena, &spool->recent);
    lengths_add(&spool->recent, example->tokens, example->labelled);
    const struct length *length = &spool->recent.items[spool->recent.count - 1];
    spool->count++;
    spool->tokens += length->tokens;
    if (fwrite(length, sizeof *length, 1, spool->lengths) != 1)
        return cannot("written", spool->folder);
    return example->ids
               ? append(&spool->own, example->ids, example->learned, (size_t)example->tokens)
               : OK;
}

void spool_add_part(struct spool *spool, const char *folder, const char *name, int64_t count)
{
    size_t size = spool->part_count * sizeof *spool->parts;
    int64_t start = spool->part_count ? spool->parts[spool->part_count - 1].end : 0;
    if (!(spool->part_count & (spool->part_count - 1))) // full at each power of two
        spool->parts =
            arena_grow(spool->arena, spool->parts, size, size ? 2 * size : sizeof *spool->parts);
    spool->parts[spool->part_count++] = (struct spool_part){ folder, name, start + count };
}

// --- blocks ------------------------------------------------------------------

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static size_t first_of(const struct spool *spool, size_t block)
{
    return spool->runs * block / spool->blocks;
}

enum err spool_draw(struct spool *spool, bool shuffles, uint64_t seed)
{
    if (!spool->part_count)
        spool_add_part(spool, NULL, NULL, spool->tokens);
    if (spool->parts[spool->part_count - 1].end != spool->tokens)
        return fail(ERR_INPUT,
                    "%s: the tokens are not those of the counted examples; remove the folder and "
                    "count again",
                    spool->parts[0].folder);
    lengths_fold(&spool->tally, &spool->tally_arena, &spool->recent);
    TRY(flush(&spool->own));
    if (fflush(spool->lengths))
        return cannot("written", spool->folder);
    spool->blocks = (spool->runs + spool->most_runs - 1) / spool->most_runs;
    spool->drawn = ARENA_NEW(spool->arena, uint32_t, spool->runs + 1);
    for (size_t i = 0; i < spool->runs; i++)
        spool->drawn[i] = (uint32_t)i;
    if (shuffles)
        packing_shuffle(spool->drawn, spool->runs, seed);
    for (size_t i = 0; i < spool->blocks; i++) // in a block the order of the data
        qsort(spool->drawn + first_of(spool, i), first_of(spool, i + 1) - first_of(spool, i),
              sizeof *spool->drawn, by_number);
    return OK;
}

static enum err read_lengths(struct spool_block *block, struct spool *spool, size_t run)
{
    size_t first = run * spool->run, left = spool->count - first;
    size_t count = left < spool->run ? left : spool->run;
    struct lengths *list = &block->lengths;
    TRY(read_at(spool->lengths, list->items + list->count, (int64_t)(count * sizeof *list->items),
                (int64_t)(first * sizeof *list->items), spool->folder));
    for (size_t i = list->count; i < list->count + count; i++)
        block->starts[i + 1] = block->starts[i] + list->items[i].tokens;
    list->count += count;
    return OK;
}

struct copying {
    struct spool *spool;
    struct spool_block *block;
    size_t part;
    struct spool_tokens from; // of this part
    struct arena arena;       // of their names
    int32_t ids[COPY_TOKENS];
    uint8_t learned[COPY_TOKENS];
};

// Opens the part that has a token. Tokens are asked for in rising order.
static enum err find_part(struct copying *copying, int64_t token, int64_t *start)
{
    const struct spool *spool = copying->spool;
    size_t part = copying->part;
    while (token >= spool->parts[part].end)
        part++;
    *start = part ? spool->parts[part - 1].end : 0;
    if (!spool->parts[part].name) {
        copying->from = spool->own;
        return OK;
    }
    if (part == copying->part && copying->from.ids)
        return OK;
    close_tokens(&copying->from);
    arena_release(&copying->arena);
    copying->part = part;
    return open_tokens(&copying->from, &copying->arena, &spool->parts[part]);
}

static enum err copy_run(struct copying *copying, size_t run)
{
    const struct spool *spool = copying->spool;
    int64_t end = run + 1 < spool->runs ? spool->starts[run + 1] : spool->tokens, start;
    for (int64_t at = spool->starts[run], count; at < end; at += count) {
        TRY(find_part(copying, at, &start));
        count = spool->parts[copying->part].end - at;
        count = count < end - at ? count : end - at;
        count = count < COPY_TOKENS ? count : COPY_TOKENS;
        TRY(read_tokens(&copying->from, at - start, count, copying->ids, copying->learned));
        TRY(append(&copying->block->copy, copying->ids, copying->learned, (size_t)count));
    }
    return OK;
}

static enum err copy_block(struct spool_block *block, struct spool *spool, size_t index)
{
    struct copying *copying = ARENA_NEW(&block->arena, struct copying, 1);
    copying->spool = spool;
    copying->block = block;
    enum err err = create_tokens(&block->copy, &block->arena, spool->folder);
    for (size_t i = first_of(spool, index); i < first_of(spool, index + 1) && !err; i++)
        err = copy_run(copying, spool->drawn[i]);
    if (copying->from.ids != spool->own.ids)
        close_tokens(&copying->from);
    arena_release(&copying->arena);
    return err ? err : flush(&block->copy);
}

// --- looking into a block ------------------------------------------------------

static enum err map(void **out, FILE *file, int64_t size, const char *name)
{
    *out = size ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fileno(file), 0) : NULL;
    if (*out != MAP_FAILED)
        return OK;
    *out = NULL;
    return cannot("mapped", name);
}

static int64_t tokens_of(const struct spool_block *block)
{
    return block->starts[block->lengths.count];
}

static enum err map_tokens(struct spool_block *block, const struct spool_tokens *tokens)
{
    int64_t count = tokens_of(block);
    TRY(map((void **)&block->ids, tokens->ids, count * ID_BYTES, tokens->name));
    return map((void **)&block->learned, tokens->learned, count, tokens->name);
}

enum err spool_open_block(struct spool_block *block, struct spool *spool, size_t index)
{
    size_t first = first_of(spool, index), end = first_of(spool, index + 1);
    size_t most = (end - first) * spool->run;
    *block = (struct spool_block){ 0 };
    block->lengths = (struct lengths){ .arena = &block->arena, .room = most };
    block->lengths.items = ARENA_NEW(&block->arena, struct length, most);
    block->starts = ARENA_NEW(&block->arena, int64_t, most + 1);
    for (size_t i = first; i < end; i++)
        TRY(read_lengths(block, spool, spool->drawn[i]));
    bool is_all = spool->blocks == 1 && !spool->parts[0].name;
    if (!is_all)
        TRY(copy_block(block, spool, index));
    return map_tokens(block, is_all ? &spool->own : &block->copy);
}

void spool_close_block(struct spool_block *block)
{
    if (block->ids)
        munmap(block->ids, (size_t)(tokens_of(block) * ID_BYTES));
    if (block->learned)
        munmap(block->learned, (size_t)tokens_of(block));
    close_tokens(&block->copy);
    arena_release(&block->arena);
    *block = (struct spool_block){ 0 };
}

// Pages that were looked at count as memory of this process until it lets go of them; the system
// maps those around a page with it.
struct spool_view spool_look(struct spool_block *block, int64_t start, int64_t count)
{
    enum { AROUND = 2 << 16, MOST = 128 << 20 };
    block->touched += AROUND + count * (ID_BYTES + 1);
    if (block->touched > MOST) {
        madvise(block->ids, (size_t)(tokens_of(block) * ID_BYTES), MADV_DONTNEED);
        madvise(block->learned, (size_t)tokens_of(block), MADV_DONTNEED);
        block->touched = 0;
    }
    return (struct spool_view){ block->ids + start, block->learned + start };
}
