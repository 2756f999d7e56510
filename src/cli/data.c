#include "cli/data.h"

#include "host/folder.h"

#include <string.h>

enum err data_open(struct catalog *catalog, const struct command_line *line)
{
    if (!line->common.data)
        return catalog_open(catalog, line->arena, NULL, 0);
    struct folder folder;
    TRY(folder_open(&folder, line->arena, line->common.data, ".csv"));
    struct catalog_file *files = ARENA_NEW(line->arena, struct catalog_file, folder.count + 1);
    for (size_t i = 0; i < folder.count; i++)
        files[i] = (struct catalog_file){ folder.files[i].name, folder.files[i].path,
                                          folder.files[i].file.text };
    enum err err = catalog_open(catalog, line->arena, files, folder.count);
    folder_close(&folder);
    return err;
}

static bool is_path(const char *name)
{
    size_t size = strlen(name);
    return *name == '/' || *name == '.' || (size > 5 && !strcmp(name + size - 5, ".json"));
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
    return err;
}
