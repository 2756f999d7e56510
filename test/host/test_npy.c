// SPDX-License-Identifier: Apache-2.0
#include "host/npy.h"

#include "host/file.h"
#include "test/files.h"
#include "test/test.h"

#include <string.h>
#include <unistd.h>

TEST(npy_written_reads_back_in_place)
{
    const char *path = files_path("numbers.npy");
    struct npy npy;
    CHECK(npy_create(&npy, path, NPY_INT32) == OK);
    static const int32_t numbers[] = { 1, -2, 2000000000 };
    for (int i = 0; i < 1000; i++)
        CHECK(npy_append(&npy, numbers, 3) == OK);
    CHECK(npy_finish(&npy) == OK);
    npy_release(&npy);

    struct file file;
    const void *items;
    int64_t count;
    CHECK(file_open(&file, path) == OK);
    CHECK(file.text.size == 128 + 3000 * 4);
    // What numpy's own documentation says of version 1.0: magic, version, a header whose end is
    // aligned to 64 bytes and is a line end.
    CHECK(!memcmp(file.text.at, "\x93NUMPY\x01\x00\x76\x00{'descr': '<i4'", 24));
    CHECK(strstr(file.text.at + 10, "'fortran_order': False, 'shape': (3000,), }"));
    CHECK(file.text.at[127] == '\n');
    CHECK(npy_read(&items, &count, file.text, NPY_INT32, path) == OK);
    CHECK(count == 3000 && ((const int32_t *)items)[2999] == 2000000000);
    CHECK(npy_read(&items, &count, file.text, NPY_INT64, path) == ERR_INPUT);
    struct text cut = { file.text.at, file.text.size - 1 };
    CHECK(npy_read(&items, &count, cut, NPY_INT32, path) == ERR_INPUT);
    for (size_t size = 0; size < 128; size++) {
        cut.size = size;
        CHECK(npy_read(&items, &count, cut, NPY_INT32, path) == ERR_INPUT);
    }
    file_close(&file);
}

TEST(npy_unfinished_leaves_no_file)
{
    const char *path = files_path("unfinished.npy");
    struct npy npy;
    CHECK(npy_create(&npy, path, NPY_UINT8) == OK);
    CHECK(npy_append(&npy, "abc", 3) == OK);
    npy_release(&npy);
    CHECK(access(path, F_OK));
}

TEST(npy_says_why_it_cannot_write)
{
    struct npy npy;
    CHECK(npy_create(&npy, "no/such/folder/x.npy", NPY_UINT8) == ERR_INPUT);
    CHECK(strstr(error_text(), "no/such/folder/x.npy: cannot be written"));
    npy_release(&npy);
}
