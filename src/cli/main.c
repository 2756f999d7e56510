// The table of commands; the only place that exits.

#include "cli/command.h"
#include "cli/print.h"
#include "host/pages.h"
#include "train/cpu/product.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_plan, command_profile, command_memory, command_pilot,
    command_train, command_watch, command_hosts, command_report, command_runs, command_merge,
    command_pack, command_tokenize, command_template, command_show, command_validate;

const struct command *const commands[] = {
    &command_plan,     &command_profile, &command_memory,   &command_pilot,
    &command_train,    &command_watch,   &command_hosts,    &command_report,
    &command_runs,     &command_merge,   &command_pack,     &command_tokenize,
    &command_template, &command_show,    &command_validate, NULL,
};

static void put_option(struct out *out, const struct field *f)
{
    enum { HELP = 25 }; // column where the explanations start
    char spelled[64];
    size_t size = 0;
    for (; f->name[size] && size < sizeof spelled - 1; size++)
        spelled[size] = f->name[size] == '_' ? '-' : f->name[size];
    spelled[size] = 0;
    struct out help = { .arena = out->arena };
    out_put(&help, "%s", f->help);
    for (int i = 0; f->choices && f->choices[i]; i++)
        out_put(&help, "%s%s", i ? ", " : ": ", f->choices[i]);
    out_put(out, "  --%-20s ", spelled);
    out_wrapped(out, HELP, size > 20 ? (int)size + 5 : HELP, out_string(&help));
}

static void print_help(const struct command *command, struct arena *arena)
{
    struct out out = print_out(arena);
    out_put(&out, "gpuhours %s: %s\n\n  %s\n", command->name, command->summary, command->example);
    const struct options *groups = command->options ? command->options() : NULL;
    for (const struct options *g = groups; g && g->fields; g++) {
        out_char(&out, '\n');
        out_heading(&out, g->title);
        for (const struct field *f = g->fields; f->name; f++)
            put_option(&out, f);
    }
    out_char(&out, '\n');
    out_heading(&out, "Common");
    for (const struct field *f = common_fields; f->name; f++)
        put_option(&out, f);
    print_text(&out);
}

static void print_guide(struct arena *arena)
{
    struct out out = print_out(arena);
    out_put(
        &out,
        "gpuhours forecasts how many GPU hours a fine-tuning run takes, and what it costs.\n\n");
    for (const struct command *const *c = commands; *c; c++)
        out_put(&out, "  gpuhours %-10s %s\n", (*c)->name, (*c)->summary);
    out_put(&out, "\ngpuhours COMMAND --help says more.\n");
    print_text(&out);
}

// Without arguments: the guide, and the whole chain on the data set that ships with the program.
static enum err show_example(struct arena *arena)
{
    static char *words[] = { "example",  "--model",  "llama-3.1-8b", "--epochs",
                             "3",        "--method", "lora",         "--gpu",
                             "h100-sxm", "--stack",  "hf-peft",      "--quiet" };
    enum { COUNT = sizeof words / sizeof *words };
    print_guide(arena);
    struct out out = print_out(arena);
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

// Begins again with them; where that cannot be, it goes on with those there are. A wrapped trainer
// keeps the environment that the user gave it.
static void take_better_kernels(char **argv)
{
    const char *better = product_better_kernels();
    for (char **word = argv; *word; word++)
        if (!strcmp(*word, "--"))
            return;
    if (better && !setenv(PRODUCT_KERNELS, better, 0))
        execv("/proc/self/exe", argv);
}

static enum err run(struct arena *arena, int argc, char **argv)
{
    if (argc < 2)
        return show_example(arena);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_guide(arena);
        return OK;
    }
    const char *names[64];
    size_t count = 0;
    for (const struct command *const *c = commands; *c; c++) {
        names[count++] = (*c)->name;
        if (strcmp(argv[1], (*c)->name))
            continue;
        for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
            if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
                print_help(*c, arena);
                return OK;
            }
        if (*c == &command_train || *c == &command_pilot)
            take_better_kernels(argv);
        struct command_line line = { .arena = arena, .count = argc - 2, .words = argv + 2 };
        return (*c)->run(&line);
    }
    const char *near = text_nearest(text_of(argv[1]), names, count);
    return near ? fail(ERR_USAGE, "there is no command %s; the nearest is %s", argv[1], near)
                : fail(ERR_USAGE, "there is no command %s; gpuhours --help lists them", argv[1]);
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
    return print_end(err);
}
