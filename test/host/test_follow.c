// SPDX-License-Identifier: Apache-2.0
#include "host/follow.h"
#include "test/files.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct got {
    struct out text;
    int pieces, beginnings, wholes;
};

static void take(void *context, const struct follow_piece *piece)
{
    struct got *got = context;
    if (piece->whole)
        got->text.size = 0;
    out_bytes(&got->text, piece->bytes.at, piece->bytes.size);
    got->pieces++;
    got->beginnings += piece->begins;
    got->wholes += piece->whole;
}

static void append(const char *path, const char *text)
{
    FILE *out = fopen(path, "a");
    CHECK(out && fputs(text, out) >= 0 && !fclose(out));
}

static const char *poll_text(struct follow *follow, struct got *got)
{
    static double seconds;
    got->text.size = 0;
    follow_poll(follow, seconds += 1);
    return out_string(&got->text);
}

TEST(follow_gives_what_is_added_and_nothing_of_before)
{
    struct got got = { .text.arena = &test_arena };
    struct follow follow;
    const char *path = files_write("follow/run.log", TEXT("old\n"));
    follow_start(&follow, &test_arena, path, take, &got);
    CHECK(!strcmp(poll_text(&follow, &got), ""));
    append(path, "one\n");
    CHECK(!strcmp(poll_text(&follow, &got), "one\n"));
    append(path, "two\nthr");
    CHECK(!strcmp(poll_text(&follow, &got), "two\nthr"));
    append(path, "ee\n");
    CHECK(!strcmp(poll_text(&follow, &got), "ee\n"));
    follow_end(&follow);
}

TEST(follow_waits_for_a_file_that_is_not_yet_there)
{
    struct got got = { .text.arena = &test_arena };
    struct follow follow;
    const char *path = files_path("follow/later.jsonl");
    follow_start(&follow, &test_arena, path, take, &got);
    CHECK(!strcmp(poll_text(&follow, &got), ""));
    append(path, "one\n");
    CHECK(!strcmp(poll_text(&follow, &got), "one\n") && got.beginnings == 1);
    follow_end(&follow);
}

TEST(follow_reads_the_rest_of_a_rotated_log_then_the_new_one)
{
    struct got got = { .text.arena = &test_arena };
    struct follow follow;
    const char *path = files_path("follow/rotated.log");
    follow_start(&follow, &test_arena, path, take, &got);
    append(path, "one\n");
    poll_text(&follow, &got);
    append(path, "two\n");
    CHECK(!rename(path, files_path("follow/rotated.log.1")));
    append(path, "three\n");
    CHECK(!strcmp(poll_text(&follow, &got), "two\nthree\n") && got.beginnings == 2);
    follow_end(&follow);
}

TEST(follow_begins_anew_where_a_log_is_truncated_or_written_again)
{
    struct got got = { .text.arena = &test_arena };
    struct follow follow;
    const char *path = files_write("follow/again.log", TEXT("a first line that is long\n"));
    follow_start(&follow, &test_arena, path, take, &got);
    files_write("follow/again.log", TEXT("short\n"));
    CHECK(!strcmp(poll_text(&follow, &got), "short\n"));
    files_write("follow/again.log", TEXT("another, that is longer than before\n"));
    CHECK(!strcmp(poll_text(&follow, &got), "another, that is longer than before\n"));
    follow_end(&follow);
}

TEST(follow_gives_states_whole_and_finds_new_files_in_folders)
{
    struct got got = { .text.arena = &test_arena };
    struct follow follow;
    files_write("out/checkpoint-10/trainer_state.json", TEXT("{\"old\": 1}"));
    files_write("out/notes.txt", TEXT("not followed"));
    const char *folder = files_path("out");
    follow_start(&follow, &test_arena, folder, take, &got);
    CHECK(!strcmp(poll_text(&follow, &got), ""));
    files_write("out/checkpoint-20/trainer_state.json", TEXT("{\"new\": 2}"));
    CHECK(!strcmp(poll_text(&follow, &got), "{\"new\": 2}") && got.wholes == 1);
    files_write("out/checkpoint-20/trainer_state.json", TEXT("{\"newer\": 3}"));
    CHECK(!strcmp(poll_text(&follow, &got), "{\"newer\": 3}") && got.wholes == 2);
    files_write("out/runs/a/events.out.tfevents.1.host", TEXT("event"));
    CHECK(!strcmp(poll_text(&follow, &got), "event"));
    files_write("out/notes.txt", TEXT("still not followed"));
    CHECK(!strcmp(poll_text(&follow, &got), ""));
    follow_end(&follow);
}

TEST(follow_sees_a_new_log_among_hundreds_of_old_ones)
{
    struct got got = { .text.arena = &test_arena };
    struct follow *follow = ARENA_NEW(&test_arena, struct follow, 1);
    const char *folder = files_path("many");
    CHECK(!mkdir(folder, 0700));
    for (int i = 0; i < 300; i++)
        append(text_format(&test_arena, "%s/%03d.log", folder, i), "old\n");
    follow_start(follow, &test_arena, folder, take, &got);
    CHECK(!*poll_text(follow, &got) && follow->count == 300);
    append(text_format(&test_arena, "%s/new.log", folder), "first\n");
    follow->scanned_seconds = -1e9;
    CHECK(!strcmp(poll_text(follow, &got), "first\n"));
    append(text_format(&test_arena, "%s/000.log", folder), "more\n");
    append(text_format(&test_arena, "%s/299.log", folder), "more\n");
    CHECK(!strcmp(poll_text(follow, &got), "more\nmore\n") && !follow->full);
    follow_end(follow);
}
