// SPDX-License-Identifier: Apache-2.0
// Opens the image files that rows name, below the folder of the data and nowhere else.

#define _XOPEN_SOURCE 700 // realpath

#include "cli/dataset/dataset.h"
#include "host/file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum err dataset_image_file(struct image_size *out, struct arena *arena, const char *folder,
                            struct text path)
{
    char root[PATH_MAX], real[PATH_MAX];
    const char *name = text_copy(arena, path);
    if (strlen(name) != path.size)
        return fail(ERR_INPUT, "its name holds a zero byte");
    if (!folder || !realpath(folder, root))
        return fail(ERR_INPUT, "the folder of the data is not known");
    const char *full = *name == '/' ? name : text_format(arena, "%s/%s", root, name);
    if (!realpath(full, real))
        return fail(ERR_INPUT, "%s", strerror(errno));
    size_t size = strlen(root);
    bool inside = !strncmp(real, root, size) && (real[size] == '/' || !strcmp(root, "/"));
    if (!inside)
        return fail(ERR_INPUT, "it is outside of the folder %s", folder);
    struct stat about;
    struct file file;
    if (stat(real, &about) || !S_ISREG(about.st_mode)) // a FIFO would wait for a writer
        return fail(ERR_INPUT, "it is no regular file");
    TRY(file_open(&file, real));
    enum err err = image_read(out, file.text);
    file_close(&file);
    return err;
}
