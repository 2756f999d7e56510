// SPDX-License-Identifier: Apache-2.0
// Finds the command, answers help and --version, and is the only place that exits.

#include "cli/help.h"
#include "cli/terminal/print.h"
#include "host/pages.h"
#include "train/cpu/product.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_plan, command_pilot, command_train;

// --- help --------------------------------------------------------------------

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

// gpuhours help, --help, --version, and COMMAND --help; sets *is_answered if it was one of them.
static enum err answer_help(bool *is_answered, struct arena *arena, int argc, char **argv)
{
    struct out out = print_out(arena);
    const char *topic = NULL;
    bool asks = is_help(argv[1]) || !strcmp(argv[1], "help");
    *is_answered = true;
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version"))
        help_version(&out);
    if (asks && argc > 2)
        topic = argv[2];
    else if (asks)
        help_guide(&out);
    for (int i = 2; !asks && i < argc && strcmp(argv[i], "--"); i++)
        topic = is_help(argv[i]) ? argv[1] : topic;
    if (topic && command_find(topic))
        help_command(&out, command_find(topic));
    else if (topic && !help_topic(&out, topic))
        return command_unknown(topic);
    *is_answered = out.size;
    print_text(&out);
    return OK;
}

// --- commands ----------------------------------------------------------------

// Without arguments: the guide, and the whole chain on the data set that ships with the program.
static enum err show_example(struct arena *arena)
{
    static char *words[] = { "example",  "--model",  "llama-3.1-8b", "--epochs",
                             "3",        "--method", "lora",         "--gpu",
                             "h100-sxm", "--stack",  "hf-peft",      "--quiet" };
    enum { COUNT = sizeof words / sizeof *words };
    struct out out = print_out(arena);
    help_guide(&out);
    out_put(&out, "\nAn example:\n\n$ gpuhours plan");
    for (int i = 0; i < COUNT - 1; i++)
        out_put(&out, "%s %s", i == 7 ? " \\\n   " : "", words[i]);
    out_put(&out, "\n\n");
    print_text(&out);
    struct command_line line = {
        .arena = arena, .count = COUNT, .words = words, .common.ledger = "off"
    };
    return command_plan.run(&line);
}

// Starts the program anew with better matrix kernels, if this processor has some; goes on as it is
// where that fails. A wrapped trainer keeps the environment that the user gave it.
static void take_better_kernels(char **argv)
{
    for (char **word = argv; *word; word++)
        if (!strcmp(*word, "--"))
            return;
    const char *better = product_better_kernels();
    if (better && !setenv(PRODUCT_KERNELS, better, 0))
        execv("/proc/self/exe", argv);
}

static enum err run(struct arena *arena, int argc, char **argv)
{
    bool is_answered;
    if (argc < 2)
        return show_example(arena);
    TRY(answer_help(&is_answered, arena, argc, argv));
    if (is_answered)
        return OK;
    const struct command *command = command_find(argv[1]);
    if (!command)
        return command_unknown(argv[1]);
    if (command == &command_train || command == &command_pilot)
        take_better_kernels(argv);
    struct command_line line = { .arena = arena, .count = argc - 2, .words = argv + 2 };
    return command->run(&line);
}

int main(int argc, char **argv)
{
    pages_init();
    print_start();
    struct arena arena = { 0 };
    enum err err = run(&arena, argc, argv);
    if (err && *error_text())
        print_note("%s", error_text());
    arena_release(&arena);
    int code = print_end(err);
    // Without the libraries' own ends, which may wait forever where memory is short.
    fflush(NULL);
    _exit(code);
}
