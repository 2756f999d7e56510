// SPDX-License-Identifier: Apache-2.0
// Opens the catalogs, and the model and stack that a command line names.

#include "cli/data.h"

#include "cli/terminal/print.h"
#include "core/trainers/trainer_config.h"
#include "host/folder.h"

#include <string.h>
#include <time.h>

enum err data_open(struct catalog *catalog, const struct command_line *line)
{
    if (!line->common.catalog)
        return catalog_open(catalog, line->arena, NULL, 0);
    struct folder folder;
    TRY(folder_open(&folder, line->arena, line->common.catalog, ".csv"));
    struct catalog_file *files = ARENA_NEW(line->arena, struct catalog_file, folder.count + 1);
    for (size_t i = 0; i < folder.count; i++)
        files[i] = (struct catalog_file){ folder.files[i].name, folder.files[i].path,
                                          folder.files[i].file.text };
    enum err err = catalog_open(catalog, line->arena, files, folder.count);
    folder_close(&folder);
    return err;
}

enum err data_plan(struct plan_data *data, const struct command_line *line)
{
    if (!line->common.catalog)
        return plan_open(data, line->arena, NULL, 0);
    struct folder tables, documents;
    TRY(folder_open(&tables, line->arena, line->common.catalog, ".csv"));
    enum err err = folder_open(&documents, line->arena, line->common.catalog, ".json");
    if (err) {
        folder_close(&tables);
        return err;
    }
    struct catalog_file *files =
        ARENA_NEW(line->arena, struct catalog_file, tables.count + documents.count + 1);
    size_t count = 0;
    const struct folder *folders[] = { &tables, &documents };
    for (int f = 0; f < 2; f++)
        for (size_t i = 0; i < folders[f]->count; i++)
            files[count++] =
                (struct catalog_file){ folders[f]->files[i].name, folders[f]->files[i].path,
                                       folders[f]->files[i].file.text };
    err = plan_open(data, line->arena, files, count);
    folder_close(&tables);
    folder_close(&documents);
    return err;
}

static bool is_path(const char *name)
{
    size_t size = strlen(name);
    return *name == '/' || *name == '.' || (size > 5 && !strcmp(name + size - 5, ".json"));
}

// How the model's own processor resizes images, where its settings lie beside its config.json.
static enum err read_processor(struct model *model, struct arena *arena, const char *config)
{
    static const char *const names[] = { "preprocessor_config.json", "processor_config.json" };
    const char *slash = strrchr(config, '/');
    const char *folder = slash ? text_format(arena, "%.*s", (int)(slash - config), config) : ".";
    for (size_t i = 0; model->tower && i < sizeof names / sizeof *names; i++) {
        struct text text;
        if (!folder_has(folder, names[i]))
            continue;
        const char *path = text_format(arena, "%s/%s", folder, names[i]);
        TRY(file_read(&text, arena, path));
        TRY(vision_read_processor(&model->tower, arena, text, path));
    }
    return OK;
}

enum err data_model(const struct model **out, const struct catalog *catalog, const char *name)
{
    const char *path = NULL;
    if (folder_has(name, "config.json"))
        path = text_format(catalog->arena, "%s/config.json", name);
    else if (folder_has(name, "") || is_path(name))
        path = name;
    if (!path)
        return catalog_model(out, catalog, name);
    struct file file;
    TRY(file_open(&file, path));
    struct model *model = ARENA_NEW(catalog->arena, struct model, 1);
    enum err err = model_read_config(model, catalog->arena, file.text, path);
    file_close(&file);
    *out = model;
    return err ? err : read_processor(model, catalog->arena, path);
}

static enum err read_stack(const struct stack **out, const struct plan_data *data, const char *path)
{
    struct file file;
    TRY(file_open(&file, path));
    struct stack *own = NULL;
    size_t count = 0;
    enum err err = stack_read(&own, &count, data->catalog.arena, data->stacks, data->stack_count,
                              file.text, path);
    file_close(&file);
    if (!err && count != 1)
        return fail(ERR_INPUT, "%s: holds %zu stacks; give a file with one", path, count);
    *out = own;
    return err;
}

enum err data_request(struct plan_request *request, const struct plan_data *data)
{
    // A plan's document has the shape of its own model; any other model is looked up.
    bool is_known =
        request->shape && request->shape_of && !strcmp(request->shape_of, request->model);
    if (request->model && !is_known)
        TRY(data_model(&request->shape, &data->catalog, request->model));
    if (request->stack && is_path(request->stack))
        TRY(read_stack(&request->own_stack, data, request->stack));
    return OK;
}

void data_take_quantized(struct plan_request *request, const struct command_line *line)
{
    struct recipe *recipe = &request->recipe;
    int stored = request->model ? recipe_quantization_of(text_of(request->model)) : -1;
    if (stored < 0 || request->former || request->pilot)
        return;
    bool known = recipe->method == RECIPE_QLORA;
    bool taken = known || (recipe->method == RECIPE_LORA && !command_gives(line, "--method"));
    bool given = command_gives(line, "--quantization") ||
                 (request->from && trainer_config_option(request->from, "quantization"));
    if (taken && !given)
        recipe->quantization = stored;
    if (taken)
        recipe->method = RECIPE_QLORA;
    if (known || line->common.quiet)
        return;
    const char *quantization = recipe_quantizations[taken ? recipe->quantization : stored];
    print_note(taken ? "the weights of %s are quantized, as its name says; planned as --method "
                       "qlora --quantization %s"
                     : "the weights of %s are quantized, as its name says; --method qlora "
                       "--quantization %s plans that",
               request->model, quantization);
}

void data_note_unused(const struct recipe *recipe, const struct command_line *line)
{
    static const struct {
        const char *option;
        enum recipe_method since; // the first method, in their order, that has it
    } options[] = {
        { "--rank", RECIPE_LORA },          { "--alpha", RECIPE_LORA },
        { "--targets", RECIPE_LORA },       { "--dropout", RECIPE_LORA },
        { "--rslora", RECIPE_LORA },        { "--adapter-dtype", RECIPE_LORA },
        { "--quantization", RECIPE_QLORA },
    };
    for (size_t i = 0; i < sizeof options / sizeof *options && !line->common.quiet; i++)
        if (recipe->method < (int)options[i].since && command_gives(line, options[i].option))
            print_note("%s is not used: --method %s has no %s", options[i].option,
                       recipe_methods[recipe->method],
                       options[i].since == RECIPE_LORA ? "adapters" : "quantized weights");
}

const struct plan_request *data_defaults(struct arena *arena)
{
    struct plan_data data;
    struct plan_request *defaults = ARENA_NEW(arena, struct plan_request, 1);
    if (plan_open(&data, arena, NULL, 0) || plan_request_assumed(defaults, &data))
        *defaults = plan_request_default();
    return defaults;
}

enum err data_vision(const struct vision **out, int64_t *positions, const struct command_line *line,
                     const char *model)
{
    struct catalog catalog;
    const struct model *found;
    *out = NULL;
    *positions = 0;
    if (!model)
        return OK;
    TRY(data_open(&catalog, line));
    bool has_config = folder_has(model, "config.json");
    if (has_config) { // what cannot be read is an error, what is not understood is said
        struct file file;
        TRY(file_open(&file, text_format(line->arena, "%s/config.json", model)));
        file_close(&file);
    }
    if (data_model(&found, &catalog, model)) { // perhaps a name that only the tokenizer knows
        if (has_config && !line->common.quiet)
            print_note("%s; the model's positions and images are not known", error_text());
        return OK;
    }
    TRY(model_find_tower(&found, line->arena));
    *out = found->tower;
    *positions = found->max_positions;
    return OK;
}

enum err data_trainer(const char **out, const struct command_line *line, const char *stack)
{
    struct plan_data data;
    const struct stack *found;
    TRY(data_plan(&data, line));
    if (is_path(stack))
        TRY(read_stack(&found, &data, stack));
    else
        TRY(stack_find(&found, data.stacks, data.stack_count, stack));
    *out = found->trainer;
    return OK;
}

const char *data_today(struct arena *arena)
{
    time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts))
        return "1970-01-01";
    return text_format(arena, "%04d-%02d-%02d", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday);
}
