// SPDX-License-Identifier: Apache-2.0
// Runs the tests whose name or file holds the word given, or all: those written in C, then the
// scripts test/*/*.sh but those of test/oracles, which install what they compare with. A script
// passes when it prints what stands in <name>.out (where there is one) and exits as <name>.exit
// says (else 0); exit 77 is a skip whose reason is its last line. BLESS=1 rewrites the .out files.
// Each script has a data folder of its own, where nothing is yet.

#include "test/files.h"
#include "test/test.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct arena test_arena;

static struct test *tests, **last = &tests;
static bool failed;
static const char *skipped;
static int passes, failures, skips;

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

static void verdict(const char *name)
{
    printf("%-4s %s%s%s\n",
           failed    ? "FAIL"
           : skipped ? "skip"
                     : "ok",
           name, skipped ? ": " : "", skipped ? skipped : "");
    fflush(stdout);
    *(failed ? &failures : skipped ? &skips : &passes) += 1;
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

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    setenv("GPUHOURS", "build/gpuhours", 0);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0); // of children: they take seconds each to look

    for (struct test *test = tests; test; test = test->next) {
        if (!strstr(test->name, word) && !strstr(test->file, word))
            continue;
        failed = false;
        skipped = NULL;
        test->run();
        verdict(test->name);
        arena_release(&test_arena);
    }
    glob_t scripts = { 0 };
    glob("test/*/*.sh", 0, NULL, &scripts);
    for (size_t i = 0; i < scripts.gl_pathc; i++) {
        bool needs_network = !strncmp(scripts.gl_pathv[i], "test/oracles/", 13);
        if (needs_network || !strstr(scripts.gl_pathv[i], word))
            continue;
        failed = false;
        skipped = NULL;
        run_script(scripts.gl_pathv[i]);
        verdict(scripts.gl_pathv[i]);
        arena_release(&test_arena);
    }
    globfree(&scripts);
    printf("%d passed, %d failed, %d skipped\n", passes, failures, skips);
    return failures > 0 || passes + skips == 0;
}
