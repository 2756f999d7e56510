// SPDX-License-Identifier: Apache-2.0
// Writes the files, and lists what pages and completions share.

#include "tools/manual/manual.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// --- options and their values ------------------------------------------------

static void add_word(struct manual_words *words, struct arena *arena, const char *word)
{
    const char **grown = ARENA_NEW(arena, const char *, words->count + 1);
    if (words->count)
        memcpy(grown, words->words, words->count * sizeof *grown);
    grown[words->count++] = word;
    words->words = grown;
}

static void add_names(struct manual_words *words, struct arena *arena, const char *placeholder,
                      const struct plan_data *data)
{
    for (size_t i = 0; !strcmp(placeholder, "MODEL") && i < data->catalog.model_count; i++)
        add_word(words, arena, data->catalog.models[i].name);
    for (size_t i = 0; !strcmp(placeholder, "GPU") && i < data->catalog.gpu_count; i++)
        add_word(words, arena, data->catalog.gpus[i].name);
    for (size_t i = 0; !strcmp(placeholder, "STACK") && i < data->stack_count; i++)
        add_word(words, arena, data->stacks[i].name);
}

struct manual_words manual_values(const struct field *field, const struct plan_data *data,
                                  struct arena *arena)
{
    struct manual_words values = { .kind = MANUAL_WORDS };
    const char *placeholder = field_value(field);
    if (!placeholder)
        return (struct manual_words){ .kind = MANUAL_NOTHING };
    for (int i = 0; field->choices && field->choices[i]; i++)
        if (*field->choices[i])
            add_word(&values, arena, field->choices[i]);
    add_names(&values, arena, placeholder, data);
    struct text rest = text_of(placeholder), word;
    while (strchr(placeholder, '|') && text_next(&rest, '|', &word))
        add_word(&values, arena, text_copy(arena, word));
    values.or_folder = !strcmp(placeholder, "MODEL");
    if (values.count)
        return values;
    bool is_file = !strcmp(placeholder, "FILE") || !strcmp(placeholder, "DATA");
    values.kind = is_file                       ? MANUAL_FILE
                  : !strcmp(placeholder, "DIR") ? MANUAL_FOLDER
                                                : MANUAL_ANYTHING;
    return values;
}

struct manual_words manual_topics(struct arena *arena)
{
    struct manual_words topics = { .kind = MANUAL_WORDS };
    for (const struct command *const *c = commands; *c; c++)
        add_word(&topics, arena, (*c)->name);
    for (const char *const *topic = help_topics; *topic; topic++)
        add_word(&topics, arena, *topic);
    return topics;
}

struct list {
    struct manual_option *options;
    size_t count;
    struct arena *arena;
};

static void skip_title(void *context, const char *title)
{
    (void)context, (void)title;
}

static void add_option(void *context, const struct field *field, const void *defaults)
{
    struct list *list = context;
    const char *spelled = help_option(field, list->arena);
    list->options[list->count++] = (struct manual_option){
        .field = field,
        .name = text_copy(list->arena, (struct text){ spelled, strcspn(spelled, " ") }),
        .text = help_text(field, defaults, list->arena),
    };
}

size_t manual_options(struct manual_option **out, const struct command *command,
                      struct arena *arena)
{
    struct list list = { ARENA_NEW(arena, struct manual_option, 256), 0, arena };
    help_options(command, arena, &(struct help_shown){ &list, skip_title, add_option });
    *out = list.options;
    return list.count;
}

// --- files -------------------------------------------------------------------

static int failures;

static void write_file(const char *folder, const char *path, const struct out *out)
{
    const char *full = text_format(out->arena, "%s/%s", folder, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *file = fopen(full, "wb");
    bool good = file && fwrite(out->at, 1, out->size, file) == out->size;
    good = file && !fclose(file) && good;
    if (!good)
        fprintf(stderr, "manual: %s cannot be written\n", full);
    failures += !good;
}

static void write_share(const char *folder, const char *date, const struct plan_data *data,
                        struct arena *arena)
{
    static const struct {
        const char *path;
        void (*write)(struct out *out, const struct plan_data *data);
    } shells[] = {
        { "bash-completion/completions/gpuhours", manual_bash },
        { "zsh/site-functions/_gpuhours", manual_zsh },
        { "fish/vendor_completions.d/gpuhours.fish", manual_fish },
    };
    struct out main_page = { .arena = arena };
    manual_page(&main_page, NULL, date);
    write_file(folder, "man/man1/gpuhours.1", &main_page);
    for (const struct command *const *c = commands; *c; c++) {
        struct out page = { .arena = arena };
        manual_page(&page, *c, date);
        write_file(folder, text_format(arena, "man/man1/gpuhours-%s.1", (*c)->name), &page);
    }
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        struct out script = { .arena = arena };
        shells[i].write(&script, data);
        write_file(folder, shells[i].path, &script);
    }
}

int main(int argc, char **argv)
{
    struct arena arena = { 0 };
    struct out out = { .arena = &arena };
    struct plan_data data;
    const char *task = argc > 1 ? argv[1] : "";
    int code = 0;
    if (plan_open(&data, &arena, NULL, 0)) {
        fprintf(stderr, "manual: %s\n", error_text());
        return 1;
    }
    if (!strcmp(task, "share") && argc == 4)
        write_share(argv[2], argv[3], &data, &arena);
    else if (!strcmp(task, "json"))
        manual_json(&out);
    else if (!strcmp(task, "reference"))
        manual_reference(&out);
    else if (!strcmp(task, "keys") && argc > 3)
        code = manual_keys(argv[2], argv + 3, argc - 3, &arena);
    else
        code = 2;
    if (out.size && fwrite(out.at, 1, out.size, stdout) != out.size)
        code = 1;
    arena_release(&arena);
    return code ? code : failures > 0;
}
