// SPDX-License-Identifier: Apache-2.0
// Speed of reading rows and fields of JSON Lines, lists, CSV, gzip and zstd, compared with memchr.
// Each line: the case, GB of plain text per second (best of five), and its share of memchr's speed.
// CPU time, so that other load does not count; wall time for the line of all cores.

#include "base/csv.h"
#include "base/json.h"
#include "host/file.h"
#include "host/pool.h"
#include "host/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { REPEATS = 5 };

static struct arena arena;
static double limit_rate;

static double now_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Records like those of instruction data: short keys, sentences, some escapes.
static struct text records(size_t size)
{
    static const char *const words[] = { "the",  "model", "of",   "a",     "number", "Janet",
                                         "eggs", "\\n",   "sold", "every", "morning" };
    struct out out = { .arena = &arena };
    unsigned seed = 1;
    while (out.size < size) {
        out_put(&out, "{\"instruction\": \"");
        for (int part = 0; part < 3; part++) {
            seed = seed * 1664525 + 1013904223;
            for (int i = 0, n = 10 + (int)(seed >> 26); i < n; i++) {
                seed = seed * 1664525 + 1013904223;
                out_put(&out, "%s ", words[(seed >> 16) % 11]);
            }
            out_put(&out, part == 0 ? "\", \"input\": \"" : part == 1 ? "\", \"output\": \"" : "");
        }
        out_put(&out, "\", \"id\": %u}\n", seed >> 12);
    }
    return out_view(&out);
}

static struct text as_list(struct text in)
{
    struct out out = { .arena = &arena };
    out_put(&out, "[");
    for (struct text row; text_next(&in, '\n', &row);)
        if (row.size) {
            out_put(&out, "%s", out.size > 1 ? ",\n" : "");
            out_bytes(&out, row.at, row.size);
        }
    out_put(&out, "]\n");
    return out_view(&out);
}

static struct text as_csv(struct text in)
{
    struct out out = { .arena = &arena };
    out_put(&out, "id,text\n");
    for (struct text row; text_next(&in, '\n', &row);)
        if (row.size > 40)
            out_put(&out, "7,\"%.*s\"\n", (int)row.size - 40, row.at + 18);
    char *text = out.at;
    for (size_t i = 8; i + 2 < out.size; i++) // quotes inside a cell are doubled
        if (text[i] == '"' && text[i - 1] != ',' && text[i + 1] != '\n' && text[i + 1] != '"')
            text[i] = '\'';
    return out_view(&out);
}

static const char *write_temporary(const char *name, struct text content)
{
    const char *path = text_format(&arena, "/tmp/gpuhours-bench-%d-%s", (int)getpid(), name);
    if (file_write(path, content)) {
        fprintf(stderr, "bench: %s\n", error_text());
        exit(1);
    }
    return path;
}

static const char *write_gzip(struct text content)
{
    const char *path = write_temporary("x.jsonl.gz", TEXT(""));
    gzFile out = gzopen(path, "wb6");
    gzwrite(out, content.at, (unsigned)content.size);
    gzclose(out);
    return path;
}

static const char *write_zstd(struct text content)
{
    size_t room = ZSTD_compressBound(content.size);
    char *packed = arena_alloc(&arena, room);
    size_t size = ZSTD_compress(packed, room, content.at, content.size, 3);
    return write_temporary("x.jsonl.zst", (struct text){ packed, size });
}

// --- timed cases -----------------------------------------------------------

static size_t count_lines_by_memchr(struct text in)
{
    size_t count = 0;
    const char *at = in.at, *end = in.at + in.size;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))))
        at++, count++;
    return count;
}

static size_t walk_rows(struct text in)
{
    struct lines rows = { { .format = LINES_JSON }, in.at, in.at + in.size, 1, 0 };
    size_t count = 0;
    for (struct text row; lines_next(&rows, &row);)
        count++;
    return count;
}

// Finds one field of a row and reads all of the row, as the record reader does.
static size_t extract_row(struct text row, struct arena *scratch)
{
    struct json_reader in = json_reader(row);
    struct text key;
    size_t size = 0;
    bool escaped;
    json_object(&in);
    while (json_key(&in, scratch, &key))
        if (text_is(key, "output"))
            size += json_raw_string(&in, &escaped).size;
        else
            json_skip(&in);
    if (json_end(&in, "bench"))
        abort();
    return size;
}

static size_t extract_fields(struct text in)
{
    struct lines rows = { { .format = LINES_JSON }, in.at, in.at + in.size, 1, 0 };
    size_t total = 0;
    for (struct text row; lines_next(&rows, &row);)
        total += extract_row(row, &arena);
    return total;
}

static size_t extract_and_decode(struct text in)
{
    struct lines rows = { { .format = LINES_JSON }, in.at, in.at + in.size, 1, 0 };
    size_t total = 0;
    for (struct text row; lines_next(&rows, &row);) {
        struct arena_mark mark = arena_mark(&arena);
        struct json_reader reader = json_reader(row);
        struct text key;
        json_object(&reader);
        while (json_key(&reader, &arena, &key))
            if (json_peek(&reader) == JSON_STRING)
                total += json_string(&reader, &arena).size;
            else
                json_skip(&reader);
        arena_rewind(&arena, mark);
    }
    return total;
}

static size_t split_cells(struct text in)
{
    struct lines rows = { { .format = LINES_CSV, .separator = ',' }, in.at, in.at + in.size, 1, 0 };
    struct text row, cells[2];
    size_t total = 0;
    while (lines_next(&rows, &row))
        if (!lines_cells(row, ',', &arena, cells, 2))
            total += cells[1].size;
    return total;
}

static size_t read_source(struct text path)
{
    struct arena scratch = { 0 };
    struct source source;
    struct block block = { 0 };
    bool more;
    size_t count = 0;
    enum err err = source_open(&source, &scratch, &path.at, 1, &(struct source_options){ 0 });
    while (!err && !(err = source_next(&source, &block, &more)) && more)
        for (struct text row; lines_next(&block.rows, &row);)
            count++;
    if (err)
        fprintf(stderr, "bench: %s\n", error_text());
    source_block_release(&block);
    source_close(&source);
    arena_release(&scratch);
    return count;
}

struct pooled {
    struct source source;
    size_t total;
};

struct pooled_item {
    struct block block;
    size_t total;
};

static enum err take(void *context, void *item, bool *more)
{
    struct pooled *run = context;
    return source_next(&run->source, &((struct pooled_item *)item)->block, more);
}

static enum err work(void *context, void *item_, int worker)
{
    (void)context, (void)worker;
    struct pooled_item *item = item_;
    struct lines rows = item->block.rows;
    struct arena scratch = { 0 };
    item->total = 0;
    for (struct text row; lines_next(&rows, &row);)
        item->total += extract_row(row, &scratch);
    arena_release(&scratch);
    return OK;
}

static enum err give(void *context, void *item)
{
    ((struct pooled *)context)->total += ((struct pooled_item *)item)->total;
    return OK;
}

static void drop(void *context, void *item)
{
    (void)context;
    source_block_release(&((struct pooled_item *)item)->block);
}

static size_t read_pooled(const char *path, int workers)
{
    struct arena scratch = { 0 };
    struct pooled run = { 0 };
    struct pool_job job = { .context = &run,
                            .item_size = sizeof(struct pooled_item),
                            .take = take,
                            .work = work,
                            .give = give,
                            .drop = drop };
    enum err err = source_open(&run.source, &scratch, &path, 1, &(struct source_options){ 0 });
    if (err || pool_run(&job, workers))
        fprintf(stderr, "bench: %s\n", error_text());
    source_close(&run.source);
    arena_release(&scratch);
    return run.total;
}

static size_t read_with_one(struct text path)
{
    return read_pooled(path.at, 1);
}

static size_t read_with_all(struct text path)
{
    return read_pooled(path.at, 0);
}

static void measure(const char *what, size_t (*run)(struct text), struct text in, size_t bytes)
{
    clockid_t clock = run == read_with_all ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    double best_seconds = 1e9;
    size_t result = 0;
    for (int i = 0; i < REPEATS; i++) {
        double began = now_seconds(clock);
        result = run(in);
        double took = now_seconds(clock) - began;
        best_seconds = took < best_seconds ? took : best_seconds;
    }
    double rate = (double)bytes / best_seconds;
    if (!limit_rate)
        limit_rate = rate;
    printf("%-34s %7.2f GB/s %6.1f %%  (%zu)\n", what, rate / 1e9, 100 * rate / limit_rate, result);
}

int main(void)
{
    struct text rows = records(64 << 20), list = as_list(rows), csv = as_csv(rows);
    measure("memchr, the limit", count_lines_by_memchr, rows, rows.size);
    measure("rows of JSON Lines", walk_rows, rows, rows.size);
    measure("one field of JSON Lines", extract_fields, rows, rows.size);
    measure("all fields, decoded", extract_and_decode, rows, rows.size);
    measure("cells of CSV", split_cells, csv, csv.size);
    struct {
        const char *what, *path;
        size_t bytes;
    } files[] = {
        { "file of JSON Lines", write_temporary("x.jsonl", rows), rows.size },
        { "file with one JSON list", write_temporary("x.json", list), list.size },
        { "file of CSV", write_temporary("x.csv", csv), csv.size },
        { "gzip of JSON Lines", write_gzip(rows), rows.size },
        { "zstd of JSON Lines", write_zstd(rows), rows.size },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        measure(files[i].what, read_source, text_of(files[i].path), files[i].bytes);
    measure("file, one field, one thread", read_with_one, text_of(files[0].path), rows.size);
    measure("file, one field, all cores", read_with_all, text_of(files[0].path), rows.size);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i].path);
    arena_release(&arena);
    return 0;
}
