// SPDX-License-Identifier: Apache-2.0
// Whatever words a command holds: a shell reads them back, every YAML file is read, and the words
// in it are the same; a plan's document is read or refused.

#include "core/launch/launch.h"

#include "host/yaml.h"
#include "test/core/launch/unquote.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS = 16 };

// The words of the line "set -- …" after those that a launcher was given.
static void check_words(struct text script, char *const *words, struct arena *arena)
{
    const char *line = script.at ? strstr(text_copy(arena, script), "set -- ") : NULL;
    if (!line)
        abort();
    line += strlen("set -- ");
    for (; *words; words++) {
        const char *word = unquote_word(&line, arena);
        if (!word || strcmp(word, *words))
            abort();
    }
}

static const struct json *item(const struct json *list, size_t at)
{
    return list && list->kind == JSON_ARRAY && at < list->count ? &list->items[at] : NULL;
}

// The text that the target hands to bash.
static struct text script_of(int to, struct text file, struct arena *arena)
{
    struct json tree;
    if (to == LAUNCH_SLURM || to == LAUNCH_SCRIPT)
        return file;
    if (yaml_read(&tree, arena, file, "job.yaml"))
        abort();
    const struct json *pod = json_get(json_get(json_get(&tree, "spec"), "template"), "spec");
    const struct json *found =
        to == LAUNCH_SKY      ? json_get(&tree, "run")
        : to == LAUNCH_DSTACK ? item(json_get(&tree, "commands"), 0)
                              : item(json_get(item(json_get(pod, "containers"), 0), "command"), 2);
    return found && found->kind == JSON_STRING ? found->string : (struct text){ 0 };
}

static void try_target(int to, char *const *words, const char *name, struct arena *arena)
{
    struct launch_plan plan = { .path = "plan.json", .model = name, .gpu = name, .gpus = 1 };
    struct launch_request request = { .to = to, .image = "image", .job = name, .setup = name };
    bool rents =
        to == LAUNCH_SKY || to == LAUNCH_DSTACK; // which know a GPU by its name or refuse it
    struct launch_place place = {
        .gpu = rents ? "h100-sxm" : name, .nodes = 1, .gpus_per_node = 1, .hours = 1, .hours_p95 = 2
    };
    struct launch_input input = { &request, &plan, &place, words, NAN };
    struct launch job;
    struct out out = { .arena = arena };
    if (launch_make(&job, arena, &input))
        return;
    launch_file(&job, &out);
    if (!job.variable_count && !strstr(name, "set --"))
        check_words(script_of(to, out_view(&out), arena), words, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct launch_plan plan;
    char *words[WORDS + 2] = { "trainer" };
    struct text rest = { (const char *)data, size }, word;
    launch_plan_read(&plan, &arena, rest, "plan.json");
    for (size_t i = 1; i <= WORDS && size && text_next(&rest, 0, &word); i++)
        words[i] = arena_copy(&arena, word.at, word.size);
    int to = (int)(size % LAUNCH_TARGETS); // one a time: five YAML files of a megabyte take seconds
    try_target(to, words, words[1] ? words[1] : "x", &arena);
    arena_release(&arena);
    return 0;
}
