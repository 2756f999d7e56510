// SPDX-License-Identifier: Apache-2.0
// large SEEDS...: gives a target inputs of 1 MB, each in a process that may use 2 seconds and 1
// GiB.
//
// Linked with one fuzz target in libFuzzer's place, without sanitizers. The inputs are what a
// megabyte can be made of: one piece over and over, lines of it, nesting, long strings, many
// members, and each seed repeated as a whole, in its longest line, and in pieces of eight bytes.
// Time is that of the processor, so that a busy machine changes nothing.

#define _GNU_SOURCE

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room) // what mutates is linked, not run
{
    (void)data, (void)room;
    return size;
}

enum { INPUT_BYTES = 1000000, MOST_SECONDS = 2, NAME = 256 };
static const rlim_t most_bytes = (rlim_t)1 << 30;

static uint8_t input[INPUT_BYTES];
static size_t input_size;
static int inputs, failures;
static double slowest;
static long largest_kib;
static char slowest_name[NAME], largest_name[NAME];

static void limit(void)
{
    setrlimit(RLIMIT_CPU, &(struct rlimit){ MOST_SECONDS, MOST_SECONDS + 1 });
    setrlimit(RLIMIT_AS,
              &(struct rlimit){ 2 * most_bytes, 2 * most_bytes }); // the program is in it
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

static void try_input(const char *name)
{
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        limit();
        LLVMFuzzerTestOneInput(input, input_size);
        _exit(0);
    }
    int status = 0;
    struct rusage used;
    if (pid < 0 || wait4(pid, &status, 0, &used) != pid)
        exit(1);
    double seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    bool ended = WIFEXITED(status) && !WEXITSTATUS(status);
    inputs++;
    if (!ended || seconds > MOST_SECONDS || used.ru_maxrss > (long)(most_bytes >> 10)) {
        failures++;
        printf("  %s: %.2f s, %ld MiB, status %#x\n", name, seconds, used.ru_maxrss >> 10,
               (unsigned)status);
    }
    if (seconds > slowest)
        slowest = seconds, snprintf(slowest_name, NAME, "%s", name);
    if (used.ru_maxrss > largest_kib)
        largest_kib = used.ru_maxrss, snprintf(largest_name, NAME, "%s", name);
}

static void put(const void *bytes, size_t size)
{
    size_t room = INPUT_BYTES - input_size;
    size = size < room ? size : room;
    memcpy(input + input_size, bytes, size);
    input_size += size;
}

// A head, a piece until so many bytes are left, a tail.
static void repeat(const char *name, const char *head, const char *piece, const char *tail)
{
    size_t size = strlen(piece), end = INPUT_BYTES - strlen(tail);
    input_size = 0;
    put(head, strlen(head));
    while (input_size + size <= end)
        put(piece, size);
    put(tail, strlen(tail));
    try_input(name);
}

// The same with a number in it, so that no two pieces are equal.
static void number(const char *name, const char *head, const char *format, const char *tail)
{
    char piece[NAME];
    size_t end = INPUT_BYTES - strlen(tail);
    input_size = 0;
    put(head, strlen(head));
    for (int i = 0; input_size + NAME < end; i++) {
        int left = 0;
        for (const char *at = format; *at; at++)
            if (*at == '#')
                left += snprintf(piece + left, sizeof piece - (size_t)left, "%d", i);
            else
                piece[left++] = *at;
        put(piece, (size_t)left);
    }
    put(tail, strlen(tail));
    try_input(name);
}

static void try_pieces(void)
{
    static const char *const pieces[] = {
        "[",  "{",     "(",  "\"",   "a",         " ",       "-",  "9",       "\\",    "{{",
        "{%", "- ",    "? ", "&",    "*",         "<<",      "é",  "1,",      "\"\",", "[0],",
        "a ", "(a*)*", "[[", "a:",   "|",         "{\"a\":", "!",  "\\u0000", ",",     "'",
        "#",  "\t",    "%",  "\xff", "e\xCC\x81", "|>",      "<|",
    };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char name[NAME], line[NAME];
        snprintf(name, sizeof name, "only %s", pieces[i]);
        snprintf(line, sizeof line, "%s\n", pieces[i]);
        repeat(name, "", pieces[i], "");
        snprintf(name, sizeof name, "lines of %s", pieces[i]);
        repeat(name, "", line, "");
    }
    repeat("zeros and ones", "", "\x01", "");
    repeat("a long string", "\"", "x", "\"");
    repeat("a string of escapes", "\"", "\\n", "\"");
    repeat("a long key", "{\"", "k", "\":1}");
    repeat("a pattern of choices", "", "a|", "b\naaaaaaaaaaaaaaaaaaaaaaaa");
    repeat("a pattern of sets", "(?i)", "[a-zé]", "\nxyz");
    repeat("a pattern on a long text", "(a+)+b\n", "a", "");
    repeat("a lookahead on a long text", "\\s+(?!\\S)|\\s+\n", " ", "x");
    number("names set", "", "{% set n# = # %}", "");
    number("names printed", "{% set x = 1 %}", "{{ n# }}", "");
    number("loops in loops", "", "{% for a# in b %}", "");
    number("objects", "[", "{\"k#\":#},", "{}]");
    number("members", "{", "\"k#\":#,", "\"z\":{}}");
    number("members in members", "", "{\"k#\":", "");
    number("keys", "", "key#: #\n", "");
    number("anchors", "", "k#: &a# [*a#]\n", "");
    number("rows", "a,b,c\n", "#,#.5,x#\n", "");
    number("columns", "", "c#,", "z\n1\n");
    number("steps", "", "{'loss': 1.#, 'step': #, 'epoch': 0.#}\n", "");
    number("bars", "", " 5%|x| #/99999 [00:0#<00:01, 1.0it/s]\r", "");
    number("vocabulary", "{\"model\":{\"type\":\"BPE\",\"vocab\":{", "\"t#\":#,",
           "\"a\":999999},\"merges\":[]}}");
    number("merges", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[", "\"a b#\",",
           "\"a a\"]}}");
    number("added tokens",
           "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"added_tokens\":[",
           "{\"id\":#,\"content\":\"<#>\",\"special\":true},", "{\"id\":0,\"content\":\"x\"}]}");
}

// --- grown from seeds --------------------------------------------------------

static uint8_t seed[INPUT_BYTES];
static size_t seed_size;

static bool read_seed(const char *path)
{
    FILE *in = fopen(path, "rb");
    seed_size = in ? fread(seed, 1, sizeof seed, in) : 0;
    if (in)
        fclose(in);
    return seed_size > 0;
}

// The seed with the bytes from start to end until the input is full.
static void grow(const char *how, const char *path, size_t start, size_t end)
{
    const char *base = strrchr(path, '/');
    char name[NAME];
    snprintf(name, sizeof name, "%s of %.20s", how, base ? base + 1 : path);
    input_size = 0;
    put(seed, start);
    while (end > start && input_size + (end - start) + (seed_size - end) <= INPUT_BYTES)
        put(seed + start, end - start);
    put(seed + end, seed_size - end);
    try_input(name);
}

static void longest_line(size_t *start, size_t *end)
{
    *start = *end = 0;
    for (size_t at = 0, next; at < seed_size; at = next) {
        const uint8_t *stop = memchr(seed + at, '\n', seed_size - at);
        next = stop ? (size_t)(stop - seed) + 1 : seed_size;
        if (next - at > *end - *start)
            *start = at, *end = next;
    }
}

static void try_seed(const char *path)
{
    size_t start, end;
    if (!read_seed(path))
        return;
    grow("repeats", path, 0, seed_size);
    longest_line(&start, &end);
    grow("lines", path, start, end);
    for (int i = 1; i < 6; i++) { // a piece in the midst: members, tags, cells, nesting
        start = seed_size * (size_t)i / 6;
        end = start + 8 + seed_size / 12;
        if (end < seed_size)
            grow("pieces", path, start, end);
    }
}

int main(int argc, char **argv)
{
    try_pieces();
    for (int i = 1; i < argc; i++)
        try_seed(argv[i]);
    const char *target = strrchr(argv[0], '/');
    printf("%-13s %4d inputs of 1 MB: slowest %.2f s (%s), largest %ld MiB (%s), %d failed\n",
           target ? target + 1 : argv[0], inputs, slowest, slowest_name, largest_kib >> 10,
           largest_name, failures);
    return failures > 0;
}
