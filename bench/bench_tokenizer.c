// SPDX-License-Identifier: Apache-2.0
// bench_tokenizer [TEXT...]: speed of counting tokens, one line for each model and text.
//
// Texts are files of records, each ended by the byte 1E, or of one a line (default: the licences
// and Python's library of a Debian system, cut into records); bench/texts.py makes some of several
// scripts. Cold: with a new cache, the time to make it included; warm: the same text again. Best of
// several runs in CPU time, so that other load matters less; for two threads half the CPU time of
// both, which is the wall time on two free cores, and the wall time itself with the load of the
// machine beside it.
// bench/peer_tokenizer.mjs runs other tokenizers on the same texts.

#include "core/tokenizer/tokenizer.h"
#include "host/file.h"
#include "host/pages.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { RUNS = 3, RECORD_BYTES = 600, PATHOLOGICAL_BYTES = 1 << 20 };

struct records {
    struct arena arena;
    struct text *at;
    size_t count, room, bytes;
};

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void add_record(struct records *r, struct text text)
{
    if (r->count == r->room) {
        size_t room = r->room ? r->room * 2 : 1024;
        r->at = arena_grow(&r->arena, r->at, r->room * sizeof *r->at, room * sizeof *r->at);
        r->room = room;
    }
    r->at[r->count++] = text;
    r->bytes += text.size;
}

// Files stay open: the records point into them.
static void add_file(struct records *r, const char *path, size_t least)
{
    struct file file;
    if (file_open(&file, path))
        return;
    struct text rest = file.text, line;
    const char *start = rest.at;
    char separator = memchr(rest.at, 0x1E, rest.size) ? 0x1E : '\n';
    while (text_next(&rest, separator, &line)) {
        size_t size = (size_t)(line.at + line.size - start);
        if (size < least && rest.size)
            continue;
        if (size)
            add_record(r, (struct text){ start, size });
        start = line.at + line.size + 1;
    }
}

static void add_system_texts(struct records *r)
{
    static const char *const patterns[] = { "/usr/share/common-licenses/*",
                                            "/usr/lib/python3*/*.py" };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        glob_t found = { 0 };
        glob(patterns[i], 0, NULL, &found);
        for (size_t k = 0; k < found.gl_pathc; k++) {
            struct stat about;
            if (!stat(found.gl_pathv[k], &about) && S_ISREG(about.st_mode))
                add_file(r, found.gl_pathv[k], RECORD_BYTES);
        }
        globfree(&found);
    }
}

// --- counting ----------------------------------------------------------------

static int64_t count_all(const struct tokenizer *t, struct tokenizer_cache *cache,
                         const struct text *at, size_t count)
{
    enum { TOGETHER = 256 }; // as for the other tokenizers
    int64_t tokens = 0, counts[TOGETHER];
    for (size_t i = 0; i < count; i += TOGETHER) {
        size_t some = count - i < TOGETHER ? count - i : TOGETHER;
        for (size_t k = 0; k < some; k++)
            tokenizer_count_later(t, cache, at[i + k], 0, &counts[k]);
        tokenizer_count_waiting(t, cache);
        for (size_t k = 0; k < some; k++)
            tokens += counts[k];
    }
    return tokens;
}

// Records that threads take in parts, as profile's take blocks of a file.
struct shared_records {
    const struct tokenizer *t;
    struct tokenizer_words *words;
    const struct records *records;
    size_t next;
};

static void *count_parts(void *argument)
{
    enum { PART = 512 };
    struct shared_records *shared = argument;
    size_t count = shared->records->count, first;
    struct tokenizer_cache *cache = tokenizer_cache_init();
    tokenizer_cache_share(cache, shared->words);
    while ((first = __atomic_fetch_add(&shared->next, PART, __ATOMIC_RELAXED)) < count)
        count_all(shared->t, cache, shared->records->at + first,
                  first + PART < count ? PART : count - first);
    tokenizer_cache_release(cache);
    return NULL;
}

struct clocks {
    double cpu, wall;
};

static struct clocks two_threads(const struct tokenizer *t, const struct records *r)
{
    struct clocks start = { seconds(CLOCK_PROCESS_CPUTIME_ID), seconds(CLOCK_MONOTONIC) };
    struct shared_records shared = { .t = t, .words = tokenizer_words_init(), .records = r };
    pthread_t other;
    pthread_create(&other, NULL, count_parts, &shared);
    count_parts(&shared);
    pthread_join(other, NULL);
    struct clocks took = { (seconds(CLOCK_PROCESS_CPUTIME_ID) - start.cpu) / 2,
                           seconds(CLOCK_MONOTONIC) - start.wall };
    tokenizer_words_release(shared.words);
    return took;
}

// How many processes wanted a core in the last minute.
static double load_of_machine(void)
{
    double load = 0;
    FILE *file = fopen("/proc/loadavg", "r");
    if (file && fscanf(file, "%lf", &load) != 1)
        load = 0;
    if (file)
        fclose(file);
    return load;
}

static double lower(double a, double b)
{
    return a < b ? a : b;
}

static void measure(const char *name, const char *text, const struct tokenizer *t,
                    const struct records *r)
{
    double cold = 1e9, warm = 1e9;
    struct clocks two = { 1e9, 1e9 };
    int64_t tokens = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = seconds(CLOCK_THREAD_CPUTIME_ID);
        struct tokenizer_cache *cache = tokenizer_cache_init();
        tokens = count_all(t, cache, r->at, r->count);
        double middle = seconds(CLOCK_THREAD_CPUTIME_ID);
        count_all(t, cache, r->at, r->count);
        warm = lower(warm, seconds(CLOCK_THREAD_CPUTIME_ID) - middle);
        cold = lower(cold, middle - start);
        tokenizer_cache_release(cache);
        struct clocks both = two_threads(t, r);
        two = (struct clocks){ lower(two.cpu, both.cpu), lower(two.wall, both.wall) };
    }
    double mb = (double)r->bytes / 1e6;
    const char *file = strrchr(text, '/');
    printf("%-12s %-8s %5.1f MB %9lld tokens  cold %6.1f  warm %6.1f  two threads, cold %6.1f by "
           "CPU, %6.1f by clock MB/s (%.2f, %.2f x; load %.1f)\n",
           name, file ? file + 1 : text, mb, (long long)tokens, mb / cold, mb / warm, mb / two.cpu,
           mb / two.wall, cold / two.cpu, cold / two.wall, load_of_machine());
}

static void measure_pathological(const char *name, const struct tokenizer *t)
{
    static const struct {
        const char *name, *unit;
    } cases[] = { { "one letter", "a" },
                  { "spaces", " " },
                  { "CJK", "\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97" },
                  { "emoji", "\xF0\x9F\x98\x80" },
                  { "dashes", "-" } };
    static char text[PATHOLOGICAL_BYTES];
    printf("%-16s", name);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = 0, unit = strlen(cases[i].unit);
        for (; size + unit <= sizeof text; size += unit)
            memcpy(text + size, cases[i].unit, unit);
        double best = 1e9;
        for (int run = 0; run < 3; run++) {
            struct tokenizer_cache *cache = tokenizer_cache_init();
            double start = seconds(CLOCK_THREAD_CPUTIME_ID);
            tokenizer_count(t, cache, (struct text){ text, size }, 0);
            best = lower(best, seconds(CLOCK_THREAD_CPUTIME_ID) - start);
            tokenizer_cache_release(cache);
        }
        printf("  %s %.1f", cases[i].name, (double)size / best / 1e6);
    }
    printf(" MB/s\n");
}

static bool load(struct tokenizer **t, struct arena *arena, const char *path, const char *name)
{
    struct file file;
    if (file_open(&file, path))
        return false;
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        struct arena trial = { 0 };
        double start = seconds(CLOCK_THREAD_CPUTIME_ID);
        bool good = !tokenizer_read(t, &trial, file.text, path);
        best = lower(best, seconds(CLOCK_THREAD_CPUTIME_ID) - start);
        arena_release(&trial);
        if (!good)
            return false;
    }
    printf("%-16s loads in %.1f ms\n", name, best * 1e3);
    bool good = !tokenizer_read(t, arena, file.text, path);
    file_close(&file);
    return good;
}

static void measure_model(const char *name, const struct tokenizer *t, int count, char **texts)
{
    for (int i = 0; i < (count ? count : 1); i++) {
        struct records records = { 0 };
        if (count)
            add_file(&records, texts[i], 1);
        else
            add_system_texts(&records);
        measure(name, count ? texts[i] : "system", t, &records);
        arena_release(&records.arena);
    }
    measure_pathological(name, t);
}

int main(int argc, char **argv)
{
    pages_init();
    static const char *const models[] = { "llama3", "qwen3",  "gpt2",   "gpt4o",
                                          "gptoss", "llama2", "gemma3", "deepseek_v3" };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct arena arena = { 0 };
        struct tokenizer *t;
        char path[256];
        const char *only = getenv("MODELS"); // as for peer_tokenizer.mjs
        if (only && !strstr(only, models[i]))
            continue;
        snprintf(path, sizeof path, "build/oracles/models/%s/tokenizer.json", models[i]);
        if (load(&t, &arena, path, models[i]))
            measure_model(models[i], t, argc - 1, argv + 1);
        else
            printf("%-16s is missing: make check-oracles installs it\n", models[i]);
        arena_release(&arena);
    }
    return 0;
}
