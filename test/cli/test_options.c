// SPDX-License-Identifier: Apache-2.0
// The tables of options, over all commands: what --help, the manual and the completions show.

#include "cli/help.h"
#include "cli/terminal/reference.h"
#include "core/trainers/trainer_option.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

// Calls check for each option that a command shows or hides, with the object of its defaults.
static void each_option(void (*check)(const struct command *, const struct field *, const void *))
{
    static const struct common common;
    for (const struct command *const *c = commands; *c; c++) {
        for (const struct options *g = (*c)->options(&test_arena); g->fields; g++)
            for (const struct field *f = g->fields; !g->refused && f->name; f++)
                check(*c, f, g->defaults ? g->defaults : g->object);
        for (const struct field *f = common_fields; f->name; f++)
            check(*c, f, &common);
    }
}

static void complain(const struct command *command, const struct field *field, const char *what)
{
    printf("%s --%s: %s\n", command->name, field->name, what);
    CHECK(!"an option is described badly");
}

static void check_value(const struct command *command, const struct field *field,
                        const void *defaults)
{
    const char *value = field_value(field);
    if (field->kind == FIELD_FLAG) {
        if (value)
            complain(command, field, "is a flag and has a placeholder");
        return;
    }
    if (!value || !*value)
        complain(command, field, "has no placeholder");
    else if (field->kind == FIELD_TEXT && !field->value)
        complain(command, field, "does not say what kind of text it takes");
    if (!field->fallback && !field_default(field, defaults, &test_arena))
        complain(command, field, "shows no default and does not say that it has none");
    const char *gap = field->fallback ? strstr(field->fallback, "%s") : NULL;
    if (gap && !field_default(field, defaults, &test_arena))
        complain(command, field, "promises the value of a default that is not there");
}

TEST(every_option_of_every_command_shows_a_placeholder_and_its_default)
{
    each_option(check_value);
}

static void check_words(const struct command *command, const struct field *field,
                        const void *defaults)
{
    (void)defaults;
    static const char *const openings[] = { "of ", "that ", "whose ", "which is " };
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++)
        if (!strncmp(field->help, openings[i], strlen(openings[i])))
            complain(command, field, "begins in the middle of a sentence");
    size_t size = strlen(field->help);
    if (size < 4 || size > 72)
        complain(command, field, "is described in too few or too many characters");
    else if (field->help[size - 1] == '.')
        complain(command, field, "ends with a full stop");
}

TEST(help_texts_are_short_and_begin_with_what_the_option_is)
{
    each_option(check_words);
}

// The longest line but for examples, which are copied as they are.
static int widest(const char *help)
{
    int most = 0;
    bool is_example = false;
    struct text rest = text_of(help), line;
    while (text_next(&rest, '\n', &line)) {
        int size = 0;
        for (size_t i = 0; i < line.size; i++)
            size += (line.at[i] & 0xC0) != 0x80;
        is_example = is_example || text_is(line, "Examples:");
        if (!(is_example && line.size > 2 && line.at[2] == 'g') && size > most)
            most = size;
    }
    return most;
}

TEST(help_fits_the_columns_it_is_given)
{
    for (const struct command *const *c = commands; *c; c++)
        for (int columns = 60; columns <= 100; columns += 20) {
            struct out out = { .arena = &test_arena };
            out.columns = columns;
            help_command(&out, *c);
            int size = widest(out_string(&out));
            if (size > columns)
                printf("%s: %d columns instead of %d\n", (*c)->name, size, columns);
            CHECK(size <= columns);
        }
    struct out guide = { .arena = &test_arena };
    help_guide(&guide);
    CHECK(widest(out_string(&guide)) <= 80);
}

static int times;
static void ignore_title(void *context, const char *title)
{
    (void)context, (void)title;
}
static void count_option(void *context, const struct field *field, const void *defaults)
{
    (void)defaults;
    times += !strcmp(field->name, context);
}

TEST(help_lists_every_option_once_and_the_most_used_ones_first)
{
    for (const struct command *const *c = commands; *c; c++) {
        CHECK((*c)->first && (*c)->usage && (*c)->about && (*c)->examples);
        int first = 0, all = 0;
        for (; (*c)->first[first]; first++) {
            struct help_shown shown = { (void *)(*c)->first[first], ignore_title, count_option };
            times = 0;
            help_options(*c, &test_arena, &shown);
            CHECK(times == 1);
        }
        for (const struct options *g = (*c)->options(&test_arena); g->fields; g++)
            for (const struct field *f = g->fields; !g->refused && f->name; f++)
                all++;
        CHECK(first <= 12 && (first >= 8 || all < 12));
    }
}

TEST(a_default_in_words_may_name_the_value_of_the_computation)
{
    struct {
        int64_t context;
        double share;
        int choice;
        bool flag;
    } object = { 2048, NAN, -1, false };
    struct field context = { "context", FIELD_COUNT, 0, .fallback = "by the data, else %s" };
    CHECK(!strcmp(field_default(&context, &object, &test_arena), "by the data, else 2048"));
    object.context = 512;
    CHECK(!strcmp(field_default(&context, &object, &test_arena), "by the data, else 512"));
    context.fallback = NULL;
    CHECK(!strcmp(field_default(&context, &object, &test_arena), "512"));
    context.fallback = "";
    CHECK(!field_default(&context, &object, &test_arena));
    struct field share = { .name = "share",
                           .kind = FIELD_SHARE,
                           .offset = offsetof(__typeof__(object), share) };
    CHECK(!field_default(&share, &object, &test_arena));
    struct field choice = { "choice", FIELD_CHOICE, offsetof(__typeof__(object), choice),
                            .choices = (const char *const[]){ "a", NULL } };
    CHECK(!field_default(&choice, &object, &test_arena));
    struct field flag = { .name = "flag",
                          .kind = FIELD_FLAG,
                          .offset = offsetof(__typeof__(object), flag) };
    CHECK(!field_default(&flag, &object, &test_arena));
    object.flag = true;
    CHECK(!strcmp(field_default(&flag, &object, &test_arena), "on"));
}

TEST(an_unknown_command_or_option_names_the_nearest_one)
{
    CHECK(command_unknown("pln") == ERR_USAGE);
    CHECK(strstr(error_text(), "did you mean plan?") != NULL);
    CHECK(command_unknown("zzzzzz") == ERR_USAGE);
    CHECK(strstr(error_text(), "gpuhours help lists them") != NULL);
    char *words[] = { "--modle", "x" };
    struct command_line line = { .arena = &test_arena, .count = 2, .words = words };
    CHECK(command_read(&line, command_find("plan")->options(&test_arena)) == ERR_USAGE);
    CHECK(strstr(error_text(), "did you mean --model?") != NULL);
}

static const char *refusal(const char *command, const char *option, const char *value)
{
    char *words[] = { (char *)option, (char *)value };
    struct command_line line = { .arena = &test_arena, .count = 2, .words = words };
    CHECK(command_read(&line, command_find(command)->options(&test_arena)) == ERR_USAGE);
    return text_format(&test_arena, "%s", error_text());
}

TEST(an_option_of_another_trainer_names_ours)
{
    static const char *const cases[][2] = {
        { "--max-seq-length", "did you mean --context?" },
        { "--max_seq_length", "did you mean --context?" },
        { "--seq-len", "did you mean --context?" },
        { "--cutoff_len", "did you mean --context?" },
        { "--batch-size", "did you mean --micro-batch (rows per GPU) or --global-batch" },
        { "--per-device-train-batch-size", "did you mean --micro-batch?" },
        { "--gradient-accumulation-steps", "did you mean --global-batch" },
        { "--lora-r", "did you mean --rank?" },
        { "--lora-rank", "did you mean --rank?" },
        { "--lora-alpha", "did you mean --alpha?" },
        { "--load-in-4bit", "did you mean --method qlora?" },
        { "--num-train-epochs", "did you mean --epochs?" },
        { "--lr", "it changes no GPU hours" },
        { "--dataset", "give the data's files without an option" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(strstr(refusal("plan", cases[i][0], "1"), cases[i][1]));
    CHECK(strstr(refusal("train", "--lr", "1"), "did you mean --rate?"));
    CHECK(strstr(refusal("train", "--batch-size", "1"), "did you mean --micro-batch?"));
    CHECK(strstr(refusal("train", "--gradient-accumulation-steps", "1"), "--accumulation?"));
    CHECK(strstr(refusal("plan", "--method", "dora"), "did you mean --method lora --dora?"));
    CHECK(strstr(refusal("plan", "--method", "QDoRA"), "did you mean --method qlora --dora?"));
}

TEST(an_option_of_another_command_names_that)
{
    CHECK(strstr(refusal("launch", "--nodes", "2"), "gpuhours plan has it"));
    CHECK(strstr(refusal("launch", "--max-seq-length", "2"), "it is --context of gpuhours plan"));
}

// A hint must not name what is refused too.
TEST(options_of_other_trainers_are_each_one_of_ours)
{
    const struct trainer_option *o = NULL;
    int count = 0;
    while ((o = trainer_option_next(o)) != NULL) {
        bool known = false;
        for (const struct command *const *c = commands; !known && *c; c++)
            for (const struct options *g = (*c)->options(&test_arena); !known && g->fields; g++)
                known = !g->refused && field_find(g->fields, text_of(o->ours));
        CHECK(known);
        count++;
    }
    CHECK(count > 50);
}

TEST(memory_refuses_options_that_do_not_change_it)
{
    static char *const ignored[] = { "--deadline", "--budget", "--retries", "--epochs" };
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        char *words[] = { ignored[i], "1" };
        struct command_line line = { .arena = &test_arena, .count = 2, .words = words };
        CHECK(command_find("memory")->run(&line) == ERR_USAGE);
        CHECK(strstr(error_text(), "memory does not depend on it") != NULL);
    }
}

TEST(data_is_the_data_set_of_train_and_elsewhere_still_the_catalog_folder)
{
    char *words[] = { "--data", "rows" };
    struct command_line line = { .arena = &test_arena, .count = 2, .words = words };
    CHECK(!command_read(&line, command_find("train")->options(&test_arena)));
    CHECK(!line.common.catalog);
    CHECK(!command_read(&line, command_find("pilot")->options(&test_arena)));
    CHECK(!line.common.catalog);
    CHECK(!command_read(&line, command_find("show")->options(&test_arena)));
    CHECK(line.common.catalog && !strcmp(line.common.catalog, "rows"));
}
