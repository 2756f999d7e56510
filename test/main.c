// SPDX-License-Identifier: Apache-2.0
// Runs the tests whose name or file holds the word given, or all: those written in C, then the
// scripts test/*/*.sh but those of test/oracles, which install what they compare with. A script
// passes when it prints what stands in <name>.out (where there is one) and exits as <name>.exit
// says (else 0); exit 77 is a skip whose reason is its last line. BLESS=1 rewrites the .out files.
// Each script has a data folder of its own, where nothing is yet.
//
// As many processes as there are cores (JOBS) take the next test each. TIMES=1 shows their seconds.

#define _GNU_SOURCE // MAP_ANONYMOUS

#include "test/files.h"
#include "test/test.h"

#include <glob.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct arena test_arena;

static struct test *tests, **last = &tests;
static bool failed;
static const char *skipped;

// A test in C, or a script by its path.
struct job {
    const char *name;
    void (*run)(void);
};

static struct job *jobs;
static int job_count;

// What the workers share: which test comes next, which each has taken, and how they ended.
enum { MAX_WORKERS = 64 };
static struct {
    atomic_int next, passes, failures, skips, taken[MAX_WORKERS];
} * progress;

// Seconds that this process and the programs it waited for have taken.
struct use {
    double wall, processor;
};

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static struct use use_so_far(void)
{
    struct rusage self, children;
    struct timespec now;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (struct use){
        .wall = (double)now.tv_sec + (double)now.tv_nsec / 1e9,
        .processor = seconds_of(self.ru_utime) + seconds_of(self.ru_stime) +
                     seconds_of(children.ru_utime) + seconds_of(children.ru_stime),
    };
}

void test_add(struct test *test)
{
    *last = test;
    last = &test->next;
}

void test_check(bool holds, const char *claim, const char *file, int line)
{
    if (holds)
        return;
    failed = true;
    printf("%s:%d: not so: %s\n", file, line, claim);
}

void test_check_near(double a, double b, double relative, const char *claim, const char *file,
                     int line)
{
    if (fabs(a - b) <= relative * fabs(b))
        return;
    failed = true;
    printf("%s:%d: not so: %s (%.12g, %.12g)\n", file, line, claim, a, b);
}

void test_skip(const char *why)
{
    skipped = why;
}

static void verdict(const char *name, struct use before)
{
    struct use now = use_so_far();
    printf("%-4s %s%s%s",
           failed    ? "FAIL"
           : skipped ? "skip"
                     : "ok",
           name, skipped ? ": " : "", skipped ? skipped : "");
    if (getenv("TIMES"))
        printf(" (%.2f s, %.2f s of processor)", now.wall - before.wall,
               now.processor - before.processor);
    printf("\n");
    fflush(stdout);
    atomic_fetch_add(failed    ? &progress->failures
                     : skipped ? &progress->skips
                               : &progress->passes,
                     1);
}

static const char *slurp(FILE *in)
{
    size_t size = 0, room = 1 << 16;
    char *text = arena_alloc(&test_arena, room);
    for (size_t got; (got = fread(text + size, 1, room - size - 1, in)) > 0;) {
        size += got;
        if (size + 1 >= room) {
            text = arena_grow(&test_arena, text, room, room * 2);
            room *= 2;
        }
    }
    text[size] = 0;
    return text;
}

static const char *beside(const char *script, const char *ending)
{
    size_t stem = strlen(script) - strlen(".sh");
    char *path = arena_alloc(&test_arena, stem + 16);
    snprintf(path, stem + 16, "%.*s%s", (int)stem, script, ending);
    return path;
}

static void run_script(const char *script)
{
    setenv("XDG_DATA_HOME", files_path(script), 1); // an empty ledger, and never the user's own
    unsetenv("COLUMNS");
    unsetenv("NO_COLOR");
    setenv("LC_ALL", "C.UTF-8", 1); // other locales are asked for by name
    char *command = arena_alloc(&test_arena, strlen(script) + 32);
    snprintf(command, strlen(script) + 32, "sh %s 2>&1", script);
    FILE *child = popen(command, "r");
    if (!child)
        return test_check(false, "a shell can be started", script, 1);
    const char *printed = slurp(child);
    int status = pclose(child);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 77) {
        size_t size = strlen(printed);
        while (size && printed[size - 1] == '\n')
            size--;
        char *why = arena_copy(&test_arena, printed, size);
        char *line = strrchr(why, '\n');
        return test_skip(line ? line + 1 : why);
    }
    int wanted = 0;
    FILE *exit_file = fopen(beside(script, ".exit"), "r");
    if (exit_file) {
        test_check(fscanf(exit_file, "%d", &wanted) == 1, ".exit holds a number", script, 1);
        fclose(exit_file);
    }
    if (code != wanted) {
        printf("%s", printed);
        printf("%s: exit code %d, wanted %d\n", script, code, wanted);
        failed = true;
    }
    const char *out_path = beside(script, ".out");
    if (getenv("BLESS") && !access(out_path, F_OK)) {
        FILE *out = fopen(out_path, "w");
        fputs(printed, out);
        fclose(out);
        return;
    }
    FILE *out_file = fopen(out_path, "r");
    if (!out_file)
        return;
    const char *expected = slurp(out_file);
    fclose(out_file);
    if (strcmp(expected, printed)) {
        size_t same = 0, line = 1;
        for (; expected[same] && expected[same] == printed[same]; same++)
            line += expected[same] == '\n';
        printf("%s:%zu: prints something else; all of it:\n%s", out_path, line, printed);
        failed = true;
    }
}

// Lists what there is to run: the scripts first, because they wait more than they compute.
static void select_jobs(const char *word)
{
    glob_t scripts = { 0 };
    glob("test/*/*.sh", 0, NULL, &scripts);
    int most = (int)scripts.gl_pathc;
    for (struct test *test = tests; test; test = test->next)
        most++;
    jobs = calloc((size_t)most, sizeof *jobs);
    for (size_t i = 0; i < scripts.gl_pathc; i++) {
        const char *path = scripts.gl_pathv[i];
        bool needs_network = !strncmp(path, "test/oracles/", 13);
        if (!needs_network && strstr(path, word))
            jobs[job_count++] = (struct job){ strdup(path), NULL };
    }
    globfree(&scripts);
    for (struct test *test = tests; test; test = test->next)
        if (strstr(test->name, word) || strstr(test->file, word))
            jobs[job_count++] = (struct job){ test->name, test->run };
}

// Runs what no other worker has taken yet.
static void work(atomic_int *taken)
{
    for (int i; (i = atomic_fetch_add(&progress->next, 1)) < job_count;) {
        atomic_store(taken, i);
        failed = false;
        skipped = NULL;
        struct use before = use_so_far();
        if (jobs[i].run)
            jobs[i].run();
        else
            run_script(jobs[i].name);
        verdict(jobs[i].name, before);
        arena_release(&test_arena);
    }
    atomic_store(taken, -1);
}

// A worker that ends before its work is done, or for a leak after it, is a failure of its own.
static void await_worker(pid_t worker, const atomic_int *test)
{
    int status;
    if (waitpid(worker, &status, 0) != worker || !status)
        return;
    int taken = atomic_load(test);
    printf("FAIL %s: its process ended by %s %d\n",
           taken < 0 ? "end of the tests" : jobs[taken].name,
           WIFSIGNALED(status) ? "signal" : "exit code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    atomic_fetch_add(&progress->failures, 1);
}

int main(int argc, char **argv)
{
    setenv("GPUHOURS", "build/gpuhours", 0);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0); // of children: they take seconds each to look
    select_jobs(argc > 1 ? argv[1] : "");
    int workers = getenv("JOBS") ? atoi(getenv("JOBS")) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    workers = workers < 1 ? 1 : workers > MAX_WORKERS ? MAX_WORKERS : workers;
    progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED || !jobs)
        return perror("tests"), 70;
    pid_t pids[MAX_WORKERS];
    for (int i = 0; i < workers; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            return perror("tests"), 70;
        if (pids[i] == 0) {
            work(&progress->taken[i]);
            return 0;
        }
    }
    for (int i = 0; i < workers; i++)
        await_worker(pids[i], &progress->taken[i]);
    int passes = progress->passes, failures = progress->failures, skips = progress->skips;
    printf("%d passed, %d failed, %d skipped\n", passes, failures, skips);
    fflush(stdout); // leaks that are found at the end would end the process before
    return failures > 0 || passes + skips == 0;
}
