// SPDX-License-Identifier: Apache-2.0
// real_lengths: reads the lists of real example lengths in test/data.

#pragma once

#include "base/csv.h"
#include "core/data/lengths.h"
#include "host/file.h"
#include "test/test.h"

static inline struct lengths real_lengths(const char *path)
{
    struct lengths list = { .arena = &test_arena };
    struct file file;
    struct csv csv = { 0 };
    if (file_open(&file, path) == OK) {
        if (csv_read(&csv, &test_arena, file.text, path, ',') == OK)
            for (size_t row = 0; row < csv.rows; row++) {
                int64_t tokens = 0, labelled = 0;
                text_read_count(&tokens, csv_cell(&csv, row, 0));
                text_read_count(&labelled, csv_cell(&csv, row, 1));
                lengths_add(&list, tokens, labelled);
            }
        file_close(&file);
    }
    test_check(list.count > 0, "the list of lengths can be read", path, 1);
    return list;
}
