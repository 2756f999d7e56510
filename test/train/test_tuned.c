// SPDX-License-Identifier: Apache-2.0
#include "host/file.h"
#include "test/files.h"
#include "test/test.h"
#include "train/files/tuned.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORK = 7, CHOICES = 5 };
static const char card[] = "NVIDIA H200, driver 13000, cuBLASLt 130000";

static const char *new_path(const char *name)
{
    const char *path = text_format(&test_arena, "%s/%s", files_folder(), name);
    unlink(path);
    return path;
}

// Choices that tell whose they are.
static struct tuned_list choices_of(unsigned char first, int64_t count)
{
    struct tuned_list list = { ARENA_NEW(&test_arena, struct tuned, count), count };
    for (int64_t i = 0; i < count; i++) {
        memset(list.items[i].key, first + (int)i, TUNED_KEY);
        memset(list.items[i].choice, 100 + first, TUNED_CHOICE);
    }
    return list;
}

static bool are_equal(struct tuned_list a, struct tuned_list b)
{
    return a.count == b.count && !memcmp(a.items, b.items, (size_t)a.count * sizeof *a.items);
}

static int64_t count_in(const char *path, const char *about, uint64_t work)
{
    return tuned_read(&test_arena, path, about, work).count;
}

static const char *written(const char *name)
{
    const char *path = new_path(name);
    CHECK(!tuned_write(path, card, WORK, choices_of(1, CHOICES)));
    return path;
}

TEST(tuned_choices_are_read_as_they_were_written)
{
    const char *path = written("tuned/deep/choices");
    struct stat about;
    CHECK(are_equal(tuned_read(&test_arena, path, card, WORK), choices_of(1, CHOICES)));
    CHECK(!stat(path, &about) && (about.st_mode & 0777) == 0600);
    CHECK(!tuned_write(path, card, WORK, choices_of(9, 2))); // in place of the former
    CHECK(are_equal(tuned_read(&test_arena, path, card, WORK), choices_of(9, 2)));
}

TEST(tuned_choices_of_another_card_driver_or_work_are_not_taken)
{
    const char *path = written("tuned_other");
    CHECK(!count_in(path, "NVIDIA H100, driver 13000, cuBLASLt 130000", WORK));
    CHECK(!count_in(path, "NVIDIA H200, driver 13010, cuBLASLt 130000", WORK));
    CHECK(!count_in(path, card, WORK + 1));
    CHECK(!tuned_write(path, card, WORK + 1, choices_of(50, 3)));
    CHECK(count_in(path, card, WORK) == CHOICES && count_in(path, card, WORK + 1) == 3);
}

TEST(tuned_choices_with_any_damage_are_not_taken)
{
    const char *path = written("tuned_damaged");
    struct text whole;
    CHECK(!tuned_write(path, card, WORK + 1, choices_of(50, 3)));
    CHECK(!file_read(&whole, &test_arena, path));
    char *copy = arena_copy(&test_arena, whole.at, whole.size);
    for (size_t i = 0; i < whole.size; i += 13) { // a byte is changed: never a wrong choice
        copy[i] ^= 0x20;
        CHECK(!file_write(path, (struct text){ copy, whole.size }));
        struct tuned_list one = tuned_read(&test_arena, path, card, WORK);
        struct tuned_list other = tuned_read(&test_arena, path, card, WORK + 1);
        CHECK(!one.count || are_equal(one, choices_of(1, CHOICES)));
        CHECK(!other.count || are_equal(other, choices_of(50, 3)));
        CHECK(!one.count || !other.count);
        copy[i] ^= 0x20;
    }
    for (size_t size = 0; size < whole.size; size += 29) { // the file ends early
        CHECK(!file_write(path, (struct text){ copy, size }));
        struct tuned_list one = tuned_read(&test_arena, path, card, WORK);
        CHECK(!one.count || are_equal(one, choices_of(1, CHOICES)));
    }
    CHECK(!file_write(path, text_of("something else entirely")));
    CHECK(!count_in(path, card, WORK));
    CHECK(!tuned_write(path, card, WORK, choices_of(1, CHOICES))); // and it mends itself
    CHECK(count_in(path, card, WORK) == CHOICES);
}

TEST(tuned_writers_at_the_same_time_lose_nothing)
{
    enum { WRITERS = 8, ROUNDS = 5 };
    const char *path = new_path("tuned_crowd");
    pid_t writers[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        if (!(writers[i] = fork())) {
            enum err err = OK;
            for (int round = 0; round < ROUNDS && !err; round++)
                err = tuned_write(path, card, (uint64_t)(100 * i + round),
                                  choices_of((unsigned char)(10 * i), CHOICES));
            _exit(err ? 1 : 0);
        }
    for (int i = 0; i < WRITERS; i++) {
        int status; // of this one: tests before may have left others behind
        CHECK(waitpid(writers[i], &status, 0) == writers[i]);
        CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
    }
    for (int i = 0; i < WRITERS; i++)
        for (int round = 0; round < ROUNDS; round++)
            CHECK(are_equal(tuned_read(&test_arena, path, card, (uint64_t)(100 * i + round)),
                            choices_of((unsigned char)(10 * i), CHOICES)));
}

// A limit on the size of files stands for a full disk.
static int write_on_full_disk(const char *path)
{
    struct rlimit limit = { 256, 256 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    return tuned_write(path, card, WORK, choices_of(9, CHOICES)) == OK;
}

TEST(tuned_choices_stay_as_they_were_where_the_disk_is_full)
{
    const char *path = written("tuned_full");
    int status;
    pid_t child = fork();
    if (!child)
        _exit(write_on_full_disk(path));
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(are_equal(tuned_read(&test_arena, path, card, WORK), choices_of(1, CHOICES)));
}

TEST(tuned_file_is_bounded_and_keeps_the_latest)
{
    enum { EACH = 300, WORKS = 20 };
    const char *path = new_path("tuned_many");
    struct tuned_list list = choices_of(3, EACH);
    struct stat about;
    for (int i = 0; i < WORKS; i++)
        CHECK(!tuned_write(path, card, (uint64_t)i, list));
    CHECK(!stat(path, &about) && about.st_size < TUNED_MOST * 200);
    CHECK(count_in(path, card, WORKS - 1) == EACH);
    CHECK(count_in(path, card, WORKS - TUNED_MOST / EACH) == EACH);
    CHECK(count_in(path, card, 0) == 0); // whole works are forgotten, the oldest first
    CHECK(count_in(path, card, WORKS - TUNED_MOST / EACH - 1) == 0);
}

TEST(tuned_file_that_others_can_write_is_neither_read_nor_replaced)
{
    const char *path = written("tuned_shared"), *link = new_path("tuned_link");
    CHECK(!chmod(path, 0622));
    CHECK(!count_in(path, card, WORK));
    CHECK(tuned_write(path, card, WORK, choices_of(9, 1)) == ERR_INPUT);
    CHECK(!chmod(path, 0600) && count_in(path, card, WORK) == CHOICES);
    CHECK(!symlink(path, link));
    CHECK(!count_in(link, card, WORK));
    CHECK(tuned_write(link, card, WORK, choices_of(9, 1)) == ERR_INPUT);
}

// --- a device ----------------------------------------------------------------

static struct tuned_list taken;

static void describe(struct device *device, char out[TUNED_ABOUT])
{
    (void)device;
    memcpy(out, card, sizeof card);
}

static int64_t list_choices(struct device *device, struct tuned *out, int64_t most)
{
    struct tuned_list list = choices_of(1, CHOICES);
    (void)device;
    CHECK(most >= CHOICES);
    memcpy(out, list.items, CHOICES * sizeof *out);
    return CHOICES;
}

static void take_choices(struct device *device, const struct tuned *choices, int64_t count)
{
    (void)device;
    taken = (struct tuned_list){ ARENA_NEW(&test_arena, struct tuned, count + 1), count };
    if (count)
        memcpy(taken.items, choices, (size_t)count * sizeof *choices);
}

TEST(tuned_choices_go_from_one_run_to_the_next_of_the_same_work)
{
    struct backend backend = { .tuned_about = describe,
                               .tuned_list = list_choices,
                               .tuned_take = take_choices };
    struct device device = { .backend = &backend };
    setenv("GPUHOURS_TUNED", new_path("tuned_run"), 1);
    CHECK(!tuned_recall(&device, WORK) && !taken.count);
    tuned_keep(&device, WORK);
    CHECK(tuned_recall(&device, WORK) && are_equal(taken, choices_of(1, CHOICES)));
    CHECK(!tuned_recall(&device, WORK + 1) && !taken.count);
    setenv("GPUHOURS_TUNED", "", 1); // none is kept
    CHECK(!tuned_path(&test_arena) && !tuned_recall(&device, WORK));
    tuned_keep(&device, WORK);
    unsetenv("GPUHOURS_TUNED");
}
