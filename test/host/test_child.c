// SPDX-License-Identifier: Apache-2.0
#include "host/child.h"
#include "test/files.h"
#include "test/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct heard {
    struct out text[2];
    double last_seconds;
    bool ordered;
};

static void hear(void *context, int stream, struct text bytes, double seconds)
{
    struct heard *heard = context;
    heard->text[stream].arena = &test_arena;
    out_bytes(&heard->text[stream], bytes.at, bytes.size);
    heard->ordered = heard->ordered && seconds >= heard->last_seconds;
    heard->last_seconds = seconds;
}

static int sink(const char *name)
{
    return open(files_path(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

// Runs a line of shell; stops it once it has said "stop".
static double grace_seconds = 0.3, reader_seconds = 5;

static struct child run(const char *script, struct heard *heard, int out, int err)
{
    char *words[] = { "sh", "-c", (char *)script, NULL };
    struct child child;
    struct child_settings settings = { .command = words,
                                       .out = out,
                                       .err = err,
                                       .grace_seconds = grace_seconds,
                                       .reader_seconds = reader_seconds,
                                       .context = heard,
                                       .output = hear };
    heard->ordered = true;
    CHECK(!child_start(&child, &settings));
    while (child_poll(&child, 0.1))
        if (heard->text[0].size && strstr(out_string(&heard->text[0]), "stop") && !child.stopped)
            child_stop(&child);
    return child;
}

static const char *content(int fd)
{
    char *text = arena_alloc(&test_arena, 4096);
    ssize_t size = pread(fd, text, 4095, 0);
    CHECK(size >= 0);
    close(fd);
    return text;
}

TEST(child_output_is_passed_on_byte_for_byte)
{
    struct heard heard = { 0 };
    int out = sink("bytes");
    struct child child = run("printf 'a\\nb\\r\\tc\\033[1m\\344'", &heard, out, out);
    child_end(&child);
    CHECK(!strcmp(content(out), "a\nb\r\tc\033[1m\344"));
    CHECK(text_is(out_view(&heard.text[0]), "a\nb\r\tc\033[1m\344"));
    CHECK(heard.ordered && child.output_bytes == 11);
}

TEST(child_keeps_output_and_errors_apart_where_we_do)
{
    struct heard heard = { 0 };
    int out = sink("apart.out"), err = sink("apart.err");
    struct child child = run("echo one; echo two >&2", &heard, out, err);
    child_end(&child);
    CHECK(!strcmp(content(out), "one\n"));
    CHECK(!strcmp(content(err), "two\n"));
}

TEST(child_believes_to_be_on_a_terminal_in_a_session_of_its_own)
{
    struct heard heard = { 0 };
    int out = sink("terminal");
    struct child child =
        run("test -t 1 && test -t 2 && cut -d' ' -f1,6 /proc/$$/stat", &heard, out, out);
    child_end(&child);
    int pid = 0, session = -1;
    CHECK(!child.code && sscanf(content(out), "%d %d", &pid, &session) == 2 && pid == session);
}

TEST(child_exit_code_and_signal_are_kept)
{
    struct heard heard = { 0 };
    struct child child = run("exit 7", &heard, 1, 1);
    child_end(&child);
    CHECK(child.code == 7 && !child.signal && !child.stopped && child.needed == CHILD_RUNS);
    CHECK(!strcmp(child_ending(&child, &test_arena), "ended with code 7"));
    child = run("kill -9 $$", &heard, 1, 1);
    child_end(&child);
    CHECK(child.code == 137 && child.signal == SIGKILL);
}

TEST(child_that_is_not_there_is_a_sentence_with_127)
{
    struct child child;
    char *words[] = { "no-such-trainer", NULL };
    struct child_settings settings = { .command = words, .out = 1, .err = 1 };
    CHECK((int)child_start(&child, &settings) == CHILD_NOT_FOUND);
    CHECK(strstr(error_text(), "no-such-trainer: command not found"));
    words[0] = (char *)files_write("not_executable", TEXT("x"));
    CHECK((int)child_start(&child, &settings) == CHILD_NOT_EXECUTABLE);
    child_end(&child);
}

TEST(child_is_stopped_by_the_mildest_means_that_work)
{
    static const struct {
        const char *trap;
        enum child_stage needed;
        double grace_seconds; // ample where the means work: a busy machine is slow to obey
    } cases[] = { { "", CHILD_INT, 30 },
                  { "INT", CHILD_TERM, 1 },
                  { "INT TERM", CHILD_KILL, 0.3 } };
    for (int i = 0; i < 3; i++) {
        struct heard heard = { 0 };
        int out = sink("stopped");
        const char *script =
            *cases[i].trap
                ? text_format(&test_arena, "trap '' %s; echo stop; while :; do sleep 5; done",
                              cases[i].trap)
                : "echo stop; exec sleep 100"; // no shell that may be forking just then
        grace_seconds = cases[i].grace_seconds;
        struct child child = run(script, &heard, out, out);
        child_end(&child);
        if (child.needed != cases[i].needed)
            printf("case %d: stage %d, signal %d, code %d\n", i, child.needed, child.signal,
                   child.code);
        CHECK(child.stopped && child.needed == cases[i].needed && child.stage == CHILD_GONE);
        CHECK(child.signal == (i == 2 ? SIGKILL : i == 1 ? SIGTERM : SIGINT));
        close(out);
    }
    grace_seconds = 0.3;
}

// Whether a process has ended. Nobody may have asked for its exit status yet: then it is a zombie.
static bool has_ended(int pid)
{
    char state = '?';
    FILE *in = fopen(text_format(&test_arena, "/proc/%d/stat", pid), "r");
    if (in && fscanf(in, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (in)
        fclose(in);
    return state == 'Z' || kill(pid, 0) == -1;
}

// A file has the number of a process that must have ended.
static void check_gone(const char *file)
{
    FILE *in = fopen(file, "r");
    int pid = 0;
    CHECK(in && fscanf(in, "%d", &pid) == 1 && pid > 1);
    if (in)
        fclose(in);
    CHECK(has_ended(pid));
}

TEST(child_leaves_no_daemon_behind_that_outlives_it)
{
    struct heard heard = { 0 };
    const char *file = files_path("daemon");
    struct child child =
        run(text_format(&test_arena,
                        "setsid sh -c 'trap \"\" TERM HUP; echo $$ >%s; while :; do sleep 1; done' "
                        ">/dev/null 2>&1 & while ! [ -s %s ]; do sleep 0.01; done",
                        file, file),
            &heard, 1, 1);
    child_end(&child);
    CHECK(child.code == 0 && child.outlived >= 1 && child.needed == CHILD_KILL);
    check_gone(file);
}

TEST(child_stop_reaches_grandchildren_whose_parents_are_gone)
{
    struct heard heard = { 0 };
    const char *file = files_path("orphan");
    int out = sink("orphan.out");
    struct child child =
        run(text_format(&test_arena,
                        "(setsid sh -c 'echo $$ >%s; exec sleep 100' >/dev/null 2>&1 &) & wait; "
                        "while ! [ -s %s ]; do sleep 0.01; done; echo stop; sleep 100",
                        file, file),
            &heard, out, out);
    child_end(&child);
    close(out);
    CHECK(child.stopped);
    check_gone(file);
}

TEST(child_tells_its_last_lines_without_control_codes)
{
    struct heard heard = { 0 };
    int out = sink("last");
    struct child child =
        run("printf 'one\\n\\033[31mtwo\\033[0m\\r\\n\\n  50%%|##  |\\rValueError: no\\n'", &heard,
            out, out);
    CHECK(!strcmp(child_last_lines(&child, &test_arena, 1), "ValueError: no"));
    CHECK(!strcmp(child_last_lines(&child, &test_arena, 3), "two\n50%|##  |\nValueError: no"));
    child_end(&child);
    close(out);
}

TEST(child_runs_to_its_end_though_nobody_reads)
{
    int ends[2];
    struct heard heard = { 0 };
    CHECK(!pipe(ends));
    reader_seconds = 0.2;
    struct child child = run("head -c 12000000 /dev/zero; exit 5", &heard, ends[1], ends[1]);
    CHECK(child.code == 5 && child.output_bytes == 12000000);
    child_end(&child);
    reader_seconds = 5;
    CHECK(child.unread_bytes > 11000000);
    // The other end stays: the thread that hangs in a write to it may write once more, and would
    // find the pipe of the next test there.
    close(ends[0]);
}

struct late_reader {
    int fd;
    size_t size;
};

static void *read_late(void *context)
{
    struct late_reader *reader = context;
    char piece[4096];
    nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 500000000 }, NULL);
    for (ssize_t size; (size = read(reader->fd, piece, sizeof piece)) > 0;)
        reader->size += (size_t)size;
    return NULL;
}

TEST(child_output_waits_for_a_reader_that_pauses)
{
    int ends[2];
    struct heard heard = { 0 };
    pthread_t thread;
    CHECK(!pipe(ends));
    struct late_reader reader = { .fd = ends[0] };
    CHECK(!pthread_create(&thread, NULL, read_late, &reader));
    struct child child = run("head -c 3000000 /dev/zero", &heard, ends[1], ends[1]);
    child_end(&child);
    close(ends[1]);
    pthread_join(thread, NULL);
    CHECK(reader.size == 3000000 && !child.unread_bytes);
    close(ends[0]);
}

TEST(child_is_killed_with_its_processes_when_its_warden_is)
{
    struct heard heard = { 0 };
    const char *script = "trap '' TERM INT HUP; "
                         "sh -c 'trap \"\" TERM; echo $$ >%s; exec setsid sleep 77' & "
                         "sleep 0.2; kill -9 $PPID; while :; do sleep 0.1; done";
    const char *file = files_path("orphan");
    struct child child = run(text_format(&test_arena, script, file), &heard, 1, 1);
    child_end(&child);
    int orphan = atoi(content(open(file, O_RDONLY | O_CLOEXEC)));
    CHECK(child.signal == SIGKILL && !child.immortal);
    CHECK(orphan > 1 && has_ended(orphan) && has_ended(child.pid));
}

TEST(child_goes_on_when_its_output_is_closed)
{
    struct heard heard = { 0 };
    const char *file = files_path("closed");
    struct child child =
        run(text_format(&test_arena, "exec >&- 2>&-; sleep 0.1; echo 5 >%s; exit 5", file), &heard,
            1, 1);
    child_end(&child);
    CHECK(child.code == 5 && !access(file, F_OK));
}
