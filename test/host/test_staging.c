// SPDX-License-Identifier: Apache-2.0
#include "host/file.h"
#include "host/staging.h"
#include "test/files.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err fill(const struct staging *staging)
{
    return file_write(text_format(&test_arena, "%s/a", staging->temporary), TEXT("content"));
}

TEST(a_staged_folder_appears_when_it_is_committed)
{
    struct staging staging;
    const char *path = files_path("staged");
    CHECK(!staging_open(&staging, &test_arena, text_format(&test_arena, "%s//", path)));
    CHECK(!fill(&staging) && access(path, F_OK));
    CHECK(!staging_commit(&staging));
    staging_release(&staging);
    struct file file;
    CHECK(!file_open(&file, files_path("staged/a")) && text_is(file.text, "content"));
    file_close(&file);
}

TEST(what_was_staged_and_not_committed_is_gone)
{
    struct staging staging;
    CHECK(!staging_open(&staging, &test_arena, files_path("given-up")));
    CHECK(!fill(&staging));
    const char *temporary = staging.temporary;
    CHECK(!access(temporary, F_OK));
    staging_release(&staging);
    CHECK(access(temporary, F_OK) && access(files_path("given-up"), F_OK));
}

TEST(an_empty_folder_may_be_replaced_and_a_full_one_not)
{
    struct staging staging;
    const char *empty = files_path("staged-empty");
    mkdir(empty, 0700);
    CHECK(!staging_open(&staging, &test_arena, empty) && !fill(&staging));
    CHECK(!staging_commit(&staging));
    staging_release(&staging);
    CHECK(staging_open(&staging, &test_arena, empty) == ERR_INPUT);
    CHECK(strstr(error_text(), "exists and is not empty"));
    staging_release(&staging);
    const char *file = files_write("staged-file", TEXT("x"));
    CHECK(staging_open(&staging, &test_arena, file) == ERR_INPUT);
    staging_release(&staging);
}

TEST(a_folder_that_a_killed_run_left_stops_no_later_one)
{
    struct staging killed, staging;
    const char *path = files_path("staged-again");
    CHECK(!staging_open(&killed, &test_arena, path) && !fill(&killed)); // with the pid of the next
    CHECK(!staging_open(&staging, &test_arena, path) && !fill(&staging));
    CHECK(!staging_commit(&staging));
    staging_release(&staging);
    CHECK(!access(files_path("staged-again/a"), F_OK));
    staging_release(&killed);
}
