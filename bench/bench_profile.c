// SPDX-License-Identifier: Apache-2.0
// The whole chain on 100 MB of chat records: read, render, tokenise, count labels, simulate
// batches.
//
// The records are conversations of two to eight messages, composed of the sentences of
// data/example.jsonl, about 2 KB each. Each line: the case, MB of the file per second of CPU time
// (one thread) or of wall time (all cores), and its share of the target of 150 MB/s per core.
// TOKENIZER names a tokenizer.json to use with its template (default: the small one of the tests).

#include "base/json.h"
#include "base/rng.h"
#include "host/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = 100000000, LIMIT_MB = 150, MOST_PARTS = 4096 };

static double wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double processor_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_CHILDREN, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

// Contents of the example's messages, still escaped as JSON.
static size_t read_parts(struct text *parts, struct file *file, const char *role)
{
    size_t count = 0;
    char start[64];
    snprintf(start, sizeof start, "\"role\": \"%s\", \"content\": \"", role);
    for (const char *at = file->text.at; count < MOST_PARTS && (at = strstr(at, start));) {
        at += strlen(start);
        const char *end = strstr(at, "\"}");
        parts[count++] = (struct text){ at, (size_t)(end - at) };
        at = end;
    }
    return count;
}

static void write_records(const char *path, const char *example)
{
    struct file file;
    struct arena arena = { 0 };
    static struct text asks[MOST_PARTS], answers[MOST_PARTS];
    if (file_open(&file, example)) {
        fprintf(stderr, "%s\n", error_text());
        exit(1);
    }
    struct file copy = { .text = { arena_copy(&arena, file.text.at, file.text.size), 0 } };
    size_t ask_count = read_parts(asks, &copy, "user");
    size_t answer_count = read_parts(answers, &copy, "assistant");
    struct rng rng = rng_seeded(1);
    FILE *out = fopen(path, "w");
    for (long size = 0, id = 0; size < FILE_BYTES; size = ftell(out), id++) {
        fprintf(out, "{\"id\": %ld, \"messages\": [", id);
        for (uint64_t turns = 1 + rng_below(&rng, 4), i = 0; i < turns; i++) {
            struct text ask = asks[rng_below(&rng, ask_count)];
            fprintf(out, "%s{\"role\": \"user\", \"content\": \"%.*s (%llu)\"}, ", i ? ", " : "",
                    TEXT_ARGS(ask), (unsigned long long)rng_below(&rng, 100000));
            fprintf(out, "{\"role\": \"assistant\", \"content\": \"");
            for (uint64_t parts = 1 + rng_below(&rng, 4); parts--;) {
                struct text answer = answers[rng_below(&rng, answer_count)];
                fprintf(out, "%.*s%s", TEXT_ARGS(answer), parts ? "\\n" : "\"}");
            }
        }
        fprintf(out, "]}\n");
    }
    fclose(out);
    file_close(&file);
    arena_release(&arena);
}

static double run(const char *path, const char *labels, int threads, double *wall)
{
    const char *tokenizer = getenv("TOKENIZER"), *program = getenv("GPUHOURS");
    char command[1024];
    snprintf(command, sizeof command,
             "%s profile %s --tokenizer %s %s --labels %s --threads %d --json > /dev/null",
             program ? program : "build/gpuhours", path,
             tokenizer ? tokenizer : "test/data/small_tokenizer.json",
             tokenizer ? "" : "--template chatml", labels, threads);
    double start = wall_seconds(), before = processor_seconds();
    if (system(command))
        exit(1);
    *wall = wall_seconds() - start;
    return processor_seconds() - before;
}

int main(void)
{
    char path[] = "/tmp/gpuhours-bench-XXXXXX", data[64], short_data[160];
    if (!mkdtemp(path))
        return 1;
    snprintf(data, sizeof data, "%s/chats.jsonl", path);
    snprintf(short_data, sizeof short_data, "head -10 %s > %s/short.jsonl", data, path);
    write_records(data, "data/example.jsonl");
    if (system(short_data))
        return 1;
    snprintf(short_data, sizeof short_data, "%s/short.jsonl", path);
    static const char *const labels[] = { "all", "assistant" };
    for (int i = 0; i < 2; i++) {
        double wall, start_wall, start = run(short_data, labels[i], 1, &start_wall);
        double seconds = run(data, labels[i], 1, &wall) - start;
        printf("profile, labels %-10s 1 thread   %6.1f MB/s of CPU time  %4.0f %% of %d\n",
               labels[i], FILE_BYTES / 1e6 / seconds, FILE_BYTES / 1e4 / seconds / LIMIT_MB,
               LIMIT_MB);
        run(data, labels[i], 0, &wall);
        printf("profile, labels %-10s all cores  %6.1f MB/s, including a start of %.2f s\n",
               labels[i], FILE_BYTES / 1e6 / wall, start_wall);
    }
    remove(short_data);
    remove(data);
    rmdir(path);
    return 0;
}
