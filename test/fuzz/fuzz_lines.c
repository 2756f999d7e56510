// SPDX-License-Identifier: Apache-2.0
// Any bytes as a stream of rows in any format: rows are inside, in order, and the same however the
// stream was cut. The first two bytes choose format and chunk size.

#include "base/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static struct lines rows_of(struct lines_cutter cutter, struct text piece, int64_t line)
{
    return (struct lines){
        .cutter = { .format = cutter.format, .separator = cutter.separator, .open = cutter.open },
        .at = piece.at,
        .end = piece.at + piece.size,
        .next_line = line
    };
}

static void must(bool holds, const char *claim)
{
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", claim);
    abort();
}

// Walks both; all rows of the piece must come next in the whole.
static void same_rows(struct lines *whole, struct lines piece, struct arena *arena)
{
    struct text a, b, cells[8];
    while (lines_next(&piece, &a)) {
        must(lines_next(whole, &b), "the whole has as many rows");
        must(a.at == b.at && a.size == b.size, "a row is the same row");
        must(piece.line == whole->line, "on the same line");
        if (piece.cutter.format == LINES_CSV)
            lines_cells(a, piece.cutter.separator, arena, cells, 8);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    if (size < 2)
        return 0;
    struct arena arena = { 0 };
    struct text text = { (const char *)data + 2, size - 2 };
    struct lines_cutter cutter = { .format = 1 + data[0] % 5, .separator = ',' };
    struct lines whole = rows_of(cutter, text, 1);
    size_t step = 1 + data[1], start = 0, chunk = 0, scanned = 0;
    int64_t line = 1;
    while (start < text.size) {
        struct lines_cutter before = cutter;
        size_t piece = 0;
        while (!piece) {
            chunk += step;
            bool ended = start + chunk >= text.size;
            chunk = ended ? text.size - start : chunk;
            piece = lines_cut(&cutter, (struct text){ text.at + start, chunk }, scanned);
            must(piece <= chunk, "a piece is inside its chunk");
            scanned = chunk;
            piece = ended ? chunk : piece;
        }
        struct text rows = { text.at + start, piece };
        same_rows(&whole, rows_of(before, rows, line), &arena);
        line += lines_count(rows);
        start += piece;
        chunk -= piece;
        scanned -= piece;
    }
    struct text none;
    must(!lines_next(&whole, &none), "the pieces have as many rows");
    lines_guess("x.json", text);
    lines_guess("x.jsonl", text);
    arena_release(&arena);
    return 0;
}
