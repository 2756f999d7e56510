// SPDX-License-Identifier: Apache-2.0
// torture PROGRAM LIBRARY TRAINER MOST JOBS [COMMAND]: lets each call of each kind fail once.
//
// A command is first run without a fault, which also counts its calls of each kind. Then it is run
// again and again, the first call of a kind failing, then the second, and so on: MOST of them,
// evenly spread, where there are more. After each run one of two things holds:
//
//     it ended as without a fault, with the same output and the same result file; or
//     it ended with an exit code of its table and a sentence, and the result file that was there
//     before is still there, or the new one is whole.
//
// A signal, a hang, a changed output with success or a damaged former result is printed and
// counted. As many processes as JOBS share the calls, each with folders of its own: a command that
// wraps a trainer mostly waits for it.

#define _GNU_SOURCE

#include "test/faults/kinds.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 64, LINE = 4096, PATIENCE_SECONDS = 60 };

// In a line F is the folder of what was prepared, W a new one for each run, T the trainer.
struct command {
    const char *name, *line;
    const char *result; // a file in W, or NULL
    bool measures;      // output and result hold times: only their presence can be compared
    bool folder;        // the result is in a folder that the command makes
};

#define MODEL "test/data/tiny_model"
#define ROWS MODEL "/rows.jsonl"

// What the commands read, and where what was printed goes.
static const struct {
    const char *line, *printed;
} prepared[] = {
    { "plan --tokens 10M --model llama-3.1-8b --gpu h100 --ledger F/ledger.sqlite --json",
      "plan.json" },
    { "profile " ROWS " --model " MODEL " --json", "profile.json" },
    { "train --random-weights --model " MODEL " --data " ROWS
      " --context 64 --method full --max-steps 1 --quiet --out F/base",
      "base.txt" },
    { "train --model F/base --tokenizer " MODEL " --data " ROWS
      " --context 64 --max-steps 1 --quiet --out F/adapter",
      "adapter.txt" },
    { NULL, NULL },
};

static const struct command commands[] = {
    { .name = "plan",
      .line = "plan " ROWS " --model llama-3.1-8b --gpu h100 --ledger W/ledger.sqlite" },
    { .name = "from",
      .line = "plan " ROWS " --from test/data/from/axolotl.yml --gpu a100 --ledger off" },
    { .name = "profile",
      .line = "profile " ROWS " --model " MODEL " --out W/result",
      .result = "result" },
    { .name = "arrow",
      .line = "profile test/data/rows.arrow --model " MODEL
              " --template chatml --bad-rows skip --json" },
    { .name = "memory", .line = "memory --model llama-3.1-8b --gpu h100 --json" },
    { .name = "hosts", .line = "hosts --plan F/plan.json --json --today 2026-11-01" },
    { .name = "report",
      .line = "report F/plan.json F/profile.json --html W/result",
      .result = "result" },
    { .name = "runs", .line = "runs list --ledger F/ledger.sqlite" },
    { .name = "actual",
      .line = "runs actual --plan F/plan.json --wall-hours 3 --ledger W/ledger.sqlite --json",
      .measures = true },
    { .name = "merge",
      .line = "merge --model F/base --adapter F/adapter --out W/new",
      .result = "new/model.safetensors",
      .folder = true },
    { .name = "pack",
      .line = "pack " ROWS " --model " MODEL " --context 64 --out W/new",
      .folder = true },
    { .name = "tokenize", .line = "tokenize --tokenizer " MODEL " " ROWS },
    { .name = "template",
      .line = "template --template chatml --messages test/faults/messages.json" },
    { .name = "show", .line = "show models --json" },
    { .name = "validate", .line = "validate F/runs.csv" },
    { .name = "watch",
      .line = "watch --quiet --plan F/plan.json --ledger W/ledger.sqlite --out W/result -- T "
              "trains 30 1",
      .result = "result",
      .measures = true },
    { .name = "pilot",
      .line =
          "pilot --quiet --from test/data/from/axolotl.yml --gpus 1 --ledger W/ledger.sqlite --out "
          "W/result -- T trains 120 2",
      .result = "result",
      .measures = true },
    { .name = "train",
      .line = "train --random-weights --model " MODEL " --data " ROWS
              " --rank 4 --context 64 --max-steps 3 --save-every 1 --quiet --out W/new",
      .result = "new/adapter_model.safetensors",
      .measures = true,
      .folder = true },
    { 0 },
};

static const char former[] = "a former result\n";
static const char *program, *library, *trainer, *place;
static uint64_t job, jobs;
static struct {
    _Atomic int runs, bad;
} * total; // of all jobs

struct outcome {
    int status;
    bool hung;
    char *said, *printed, *result; // NULL where there is none
    size_t said_size, printed_size, result_size;
};

static char *slurp(const char *name, size_t *size)
{
    char path[LINE];
    snprintf(path, sizeof path, "%s/%s", place, name);
    FILE *in = fopen(path, "rb");
    *size = 0;
    if (!in)
        return NULL;
    size_t room = 1 << 20;
    char *at = malloc(room + 1);
    for (size_t got; (got = fread(at + *size, 1, room - *size, in)) > 0;)
        if ((*size += got) == room)
            at = realloc(at, (room *= 2) + 1);
    at[*size] = 0;
    fclose(in);
    return at;
}

static void shell(const char *format, const char *argument)
{
    char line[LINE];
    snprintf(line, sizeof line, format, argument);
    if (system(line))
        fprintf(stderr, "torture: %s failed\n", line);
}

// The words of a line, its letters F, W and T replaced.
static void cut(char *words[WORDS], const char *line)
{
    static char text[4 * LINE];
    char *to = text;
    int count = 0;
    words[count++] = (char *)program;
    for (const char *at = line; *at && count < WORDS - 1; at += *at == ' ') {
        words[count++] = to;
        for (bool first = true; *at && *at != ' '; at++, first = false) {
            bool ends = !at[1] || at[1] == '/' || at[1] == ' ';
            if (first && ends && (*at == 'F' || *at == 'W'))
                to += sprintf(to, "%s/%c", place, *at);
            else if (first && ends && *at == 'T')
                to += sprintf(to, "%s", trainer);
            else
                *to++ = *at;
        }
        *to++ = 0;
    }
    words[count] = NULL;
}

static void start(const char *line, const char *fault)
{
    char *words[WORDS], path[LINE];
    cut(words, line);
    setpgid(0, 0);
    snprintf(path, sizeof path, "%s/stdout", place);
    dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    snprintf(path, sizeof path, "%s/stderr", place);
    dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    snprintf(path, sizeof path, "%s/data", place);
    setenv("XDG_DATA_HOME", path, 1);
    setenv("TMPDIR", place, 1);
    if (*fault) {
        // With sanitizers, what they find is a code of none; their library need not come first.
        setenv("ASAN_OPTIONS", "exitcode=99:detect_leaks=0:verify_asan_link_order=0", 1);
        setenv("UBSAN_OPTIONS", "exitcode=99", 1);
        setenv("FAULT", fault, 1);
        setenv("LD_PRELOAD", library, 1);
    }
    execv(program, words);
    _exit(127);
}

static void finish(pid_t pid, struct outcome *outcome)
{
    for (long tick = 0; waitpid(pid, &outcome->status, WNOHANG) == 0; tick++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        if (tick == PATIENCE_SECONDS * 900L) {
            outcome->hung = true;
            kill(-pid, SIGKILL);
        }
    }
    kill(-pid, SIGKILL); // what it left behind in its group
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

static void run(const struct command *command, const char *fault, struct outcome *outcome)
{
    *outcome = (struct outcome){ 0 };
    char path[LINE];
    snprintf(path, sizeof path, "%s/W", place);
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/W/%s", place, command->result ? command->result : "none");
    if (command->result && !command->folder) {
        FILE *old = fopen(path, "w");
        fputs(former, old);
        fclose(old);
    }
    pid_t pid = fork();
    if (!pid)
        start(command->line, fault);
    finish(pid, outcome);
    outcome->said = slurp("stderr", &outcome->said_size);
    outcome->printed = slurp("stdout", &outcome->printed_size);
    snprintf(path, sizeof path, "W/%s", command->result ? command->result : "none");
    outcome->result = command->result ? slurp(path, &outcome->result_size) : NULL;
}

static void forget(struct outcome *outcome)
{
    free(outcome->said);
    free(outcome->printed);
    free(outcome->result);
}

static bool same(const char *a, size_t a_size, const char *b, size_t b_size)
{
    return !a == !b && a_size == b_size && (!a || !memcmp(a, b, a_size));
}

// What is wrong with the outcome, or NULL.
static const char *judge(const struct command *c, const struct outcome *good,
                         const struct outcome *got)
{
    bool same_result = same(good->result, good->result_size, got->result, got->result_size);
    bool whole =
        same_result || (c->measures && got->result && got->result_size > good->result_size / 2 &&
                        (c->folder || !strcmp(got->result + got->result_size - 2, "}\n")));
    bool kept = c->folder ? !got->result : got->result && !strcmp(got->result, former);
    if (got->hung)
        return "hung";
    if (WIFSIGNALED(got->status))
        return "ended by a signal";
    int code = WEXITSTATUS(got->status);
    if (code == WEXITSTATUS(good->status)) {
        if (!c->measures &&
            !same(good->printed, good->printed_size, got->printed, got->printed_size))
            return "succeeded with another output";
        bool none = code && kept; // a pilot that measured nothing steady may have no result
        return c->result && !whole && !none ? "succeeded without its result" : NULL;
    }
    if (!code && c->measures && whole) // the run without a fault measured nothing steady
        return NULL;
    if ((code < 1 || code > 5) && code != 126) // 126: the trainer cannot be started
        return "ended with an unknown code";
    if (!got->said_size)
        return "ended without a sentence";
    return c->result && !whole && !kept ? "lost the former result" : NULL;
}

static void reset_counts(uint64_t *counts)
{
    memset(counts, 0, FAULT_KINDS * sizeof *counts);
}

static void complain(const struct command *command, enum fault_kind kind, uint64_t call,
                     const char *what, const struct outcome *got)
{
    total->bad++;
    printf("%s: %s %llu: %s (status %#x): %.300s\n", command->name, fault_kinds[kind],
           (unsigned long long)call, what, (unsigned)got->status,
           got->said && *got->said ? got->said : "nothing said\n");
}

static void print_calls(const struct command *command, const uint64_t *calls)
{
    printf("%-9s", command->name);
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        if (calls[kind])
            printf(" %s %llu", fault_kinds[kind], (unsigned long long)calls[kind]);
    printf("\n");
}

// The calls of a command: every one, or so many of them, the first and the last included.
static void torture(const struct command *command, uint64_t most, uint64_t *counts)
{
    char fault[LINE];
    uint64_t calls[FAULT_KINDS];
    struct outcome good, got;
    snprintf(fault, sizeof fault, "none:0:%s/counts", place);
    reset_counts(counts);
    run(command, fault, &good);
    memcpy(calls, counts, sizeof calls);
    if (good.hung || !WIFEXITED(good.status) || WEXITSTATUS(good.status) > 1) {
        printf("%s: cannot run without a fault (status %#x): %s\n", command->name,
               (unsigned)good.status, good.said);
        total->bad++;
    }
    if (!job)
        print_calls(command, calls);
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        uint64_t tries = calls[kind] < most ? calls[kind] : most;
        for (uint64_t i = job; i < tries; i += jobs) {
            uint64_t call = tries < 2 ? 1 : 1 + i * (calls[kind] - 1) / (tries - 1);
            snprintf(fault, sizeof fault, "%s:%llu:%s/counts", fault_kinds[kind],
                     (unsigned long long)call, place);
            reset_counts(counts);
            run(command, fault, &got);
            total->runs++;
            const char *what = judge(command, &good, &got);
            if (what)
                complain(command, (enum fault_kind)kind, call, what, &got);
            forget(&got);
        }
    }
    forget(&good);
    fflush(stdout);
}

static void prepare(void)
{
    char path[LINE];
    snprintf(path, sizeof path, "%s/F", place);
    mkdir(path, 0700);
    shell("head -40 data/runs.csv > %s/F/runs.csv", place); // of few sources: a fit for each
    for (int i = 0; prepared[i].line; i++) {
        struct outcome outcome = { 0 };
        pid_t pid = fork();
        if (!pid)
            start(prepared[i].line, "");
        finish(pid, &outcome);
        if (outcome.status) {
            printf("cannot be prepared: %s: %s\n", prepared[i].line,
                   slurp("stderr", &outcome.said_size));
            exit(1);
        }
        char new_path[LINE];
        snprintf(path, sizeof path, "%s/stdout", place);
        snprintf(new_path, sizeof new_path, "%s/F/%s", place, prepared[i].printed);
        rename(path, new_path);
    }
}

// One job's share of the faults of a command, or of all commands.
static int work(uint64_t most, const char *only)
{
    char folder[] = "/tmp/gpuhours-torture-XXXXXX", path[LINE];
    place = mkdtemp(folder);
    snprintf(path, sizeof path, "%s/counts", place);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (!place || fd < 0 || ftruncate(fd, 4096))
        return 1;
    uint64_t *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    prepare();
    for (const struct command *c = commands; c->name; c++)
        if (!only || !strcmp(only, c->name))
            torture(c, most, counts);
    shell("rm -rf %s", place);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    program = argv[1], library = argv[2], trainer = argv[3], jobs = strtoull(argv[5], NULL, 10);
    total = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!jobs || total == MAP_FAILED)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (job = 0; job < jobs; job++)
        if (!fork())
            exit(work(strtoull(argv[4], NULL, 10), argc > 6 ? argv[6] : NULL));
    int status, ended = 0;
    while (wait(&status) > 0)
        ended += !status;
    printf("%d faults, %d bad\n", total->runs, total->bad);
    return total->bad || ended != (int)jobs;
}
