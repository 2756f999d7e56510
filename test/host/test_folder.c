// SPDX-License-Identifier: Apache-2.0
#include "host/folder.h"
#include "test/test.h"

#include <string.h>

TEST(folder_gives_the_files_with_an_ending_in_the_order_of_their_names)
{
    struct folder folder;
    CHECK(!folder_open(&folder, &test_arena, "test/data/config", ".json"));
    CHECK(folder.count > 20);
    for (size_t i = 0; i < folder.count; i++) {
        CHECK(folder.files[i].file.text.at[0] == '{');
        CHECK(!i || strcmp(folder.files[i - 1].name, folder.files[i].name) < 0);
    }
    folder_close(&folder);
    CHECK(!folder.count);
    CHECK(!folder_open(&folder, &test_arena, "test/data/catalog/own", ".csv"));
    CHECK(folder.count == 1 && !strcmp(folder.files[0].name, "gpus.csv"));
    CHECK(!strcmp(folder.files[0].path, "test/data/catalog/own/gpus.csv"));
    folder_close(&folder);
}

TEST(folder_without_such_files_is_empty_and_a_missing_one_is_an_error)
{
    struct folder folder;
    CHECK(!folder_open(&folder, &test_arena, "test/data/config", ".csv") && !folder.count);
    folder_close(&folder);
    CHECK(folder_open(&folder, &test_arena, "test/data/nowhere", ".csv") == ERR_INPUT);
    CHECK(strstr(error_text(), "test/data/nowhere"));
}

TEST(folder_can_be_written_or_made_where_it_is_tried)
{
    CHECK(!folder_try("test") && !folder_try("test/") && !folder_try("to-be-made"));
    CHECK(!folder_try("test/to-be-made/") && !folder_is("test/to-be-made"));
    CHECK(folder_try("test/nowhere/to-be-made") == ERR_INPUT);
    CHECK(folder_try("test/main.c") == ERR_INPUT && strstr(error_text(), "Not a directory"));
}

TEST(folder_tells_files_from_folders)
{
    CHECK(folder_is("test/data/config") && !folder_is("test/data/config/llama.json"));
    CHECK(!folder_is("test/data/nowhere"));
    CHECK(folder_has("test/data/config", "llama.json"));
    CHECK(folder_has("test/data/config/llama.json", ""));
    CHECK(!folder_has("test/data", "config"));
    CHECK(!folder_has("test/data/config", "nothing.json"));
}
