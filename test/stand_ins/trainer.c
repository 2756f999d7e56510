// SPDX-License-Identifier: Apache-2.0
// trainer MODE [STEPS [MILLISECONDS [FILE]]]: stands for a trainer in tests of pilot and watch.
//
// Prints tqdm's bar on standard error, the first steps slower than the rest, and misbehaves as its
// mode says. Each step ends at its time, however late the one before was printed: a busy machine
// does not make steps slower.

#define _GNU_SOURCE

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int steps = 60, milliseconds = 5;
static const char *mode, *file;

static int is(const char *name)
{
    return !strcmp(mode, name);
}

static void rest(double ms)
{
    static struct timespec end;
    if (!end.tv_sec)
        clock_gettime(CLOCK_MONOTONIC, &end);
    long long ns = end.tv_nsec + (long long)(ms * 1e6);
    end.tv_sec += (time_t)(ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}

// As a trainer that has saved what it had.
static void yield(int number)
{
    (void)number;
    _exit(0);
}

// As Python does where nothing else is to be done.
static void complain(int number)
{
    static const char words[] = "\nTraceback (most recent call last):\nKeyboardInterrupt\n";
    _exit(write(2, words, sizeof words - 1) > 0 ? 128 + number : 1);
}

static void forever(void)
{
    for (;;)
        pause();
}

static void bar(int at, int of, const char *name)
{
    fprintf(stderr, "\r%s%3d%%|%.*s| %d/%d [00:%02d<00:%02d, 98.76it/s]", name, 100 * at / of,
            10 * at / of, "##########", at, of, at / 60 % 60, (of - at) / 60 % 60);
    fflush(stderr);
}

// A process that nobody's child is and nobody's terminal has.
static void leave_daemon(void)
{
    if (fork())
        return;
    setsid();
    if (fork())
        _exit(0);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(nothing, fd);
    forever();
}

static void flood(long megabytes)
{
    static char block[1000000];
    memset(block, 'x', sizeof block);
    for (size_t i = 99; i < sizeof block; i += 100)
        block[i] = '\n';
    for (long i = 0; i < megabytes; i++)
        fwrite(block, 1, sizeof block, stdout);
    fflush(stdout);
}

static void append(const char *path, int step)
{
    FILE *out = fopen(path, "a");
    fprintf(out, "{\"step\": %d, \"total_steps\": %d, \"loss\": 1.5}\n", step, steps);
    fclose(out);
}

// As transformers does at a save: its state, whole.
static void write_state(int step)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/checkpoint-%d", file, step);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/checkpoint-%d/trainer_state.json", file, step);
    FILE *out = fopen(path, "w");
    fprintf(out,
            "{\"global_step\": %d, \"max_steps\": %d, \"num_input_tokens_seen\": %d, "
            "\"log_history\": [{\"loss\": 1.5, \"step\": %d, \"num_input_tokens_seen\": %d}]}\n",
            step, steps, 512 * step, step, 512 * step);
    fclose(out);
}

static void rotate(void)
{
    char old[4096];
    snprintf(old, sizeof old, "%s.1", file);
    rename(file, old);
}

// A second bar below the first, as tqdm draws it, that vanishes at its end; then the result.
static void evaluate(void)
{
    for (int i = 0; i <= 4; i++) {
        fprintf(stderr, "\n");
        bar(i, 4, "");
        fprintf(stderr, "\033[A");
        rest(10 * milliseconds);
    }
    fprintf(stderr, "\n\r%60s\r\033[A\r%60s\r", "", "");
    fprintf(stderr, "{'eval_loss': 1.25, 'eval_runtime': 0.2, 'epoch': 0.5}\n");
}

static void after_step(int step)
{
    if (is("dies") && step == steps / 2) {
        fprintf(stderr, "\nTraceback (most recent call last):\nRuntimeError: the loss is NaN\n");
        exit(3);
    }
    if (is("memory") && step == steps / 2) {
        fprintf(stderr,
                "\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n");
        exit(1);
    }
    if (is("silent") && step == 3)
        forever();
    if (is("rotates") && step == steps / 2)
        rotate();
    if (is("evaluates") && step && step % 10 == 0)
        fprintf(stderr, "\r%60s\r{'loss': 1.5, 'learning_rate': 1e-4, 'epoch': %.2f}\n", "",
                0.01 * step);
    if (is("evaluates") && step && step % 20 == 0)
        evaluate();
    if (is("saves") && step == steps / 2)
        write_state(step);
    if (is("counts") && step % 5 == 0)
        printf("{'loss': 1.5, 'learning_rate': 1e-4, 'num_input_tokens_seen': %d, 'epoch': %.2f}\n",
               4096 * step, 0.01 * step);
}

int main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "trains";
    steps = argc > 2 ? atoi(argv[2]) : steps;
    milliseconds = argc > 3 ? atoi(argv[3]) : milliseconds;
    file = argc > 4 ? argv[4] : NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (is("stubborn"))
        signal(SIGINT, SIG_IGN), signal(SIGTERM, SIG_IGN);
    if (is("silent"))
        signal(SIGINT, complain);
    if (is("yields"))
        signal(SIGTERM, yield);
    if (is("daemon") || is("leaves"))
        leave_daemon();
    if (is("floods"))
        flood(file ? atol(file) : 1);
    if (is("echoes")) { // what it is given, and whether it is on a terminal
        char line[100] = "";
        if (fgets(line, sizeof line, stdin))
            printf("%s%s %s\n", line, isatty(1) ? "terminal" : "pipe",
                   isatty(2) ? "terminal" : "pipe");
        return 0;
    }
    int quiet = is("rotates") || is("writes");
    if (is("closes"))
        close(1), close(2);
    for (int step = 0; step <= steps; step++) {
        if (is("resumes") && step == 1) // as transformers does from a checkpoint
            step += steps / 2;
        if (!quiet)
            bar(step, steps, "");
        if (quiet && step)
            append(file, step);
        after_step(step);
        rest(step < 4 ? 6 * milliseconds : milliseconds);
    }
    fprintf(stderr, "\n");
    return is("fails") ? 4 : 0;
}
