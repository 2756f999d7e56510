// SPDX-License-Identifier: Apache-2.0
// Checks and locks the folder that a run writes to.

#include "cli/engine/train_out.h"

#include "host/folder.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_same_folder(const char *a, const char *b)
{
    struct stat one, other;
    return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

enum err train_out_check(const char *out, const char *replaced, const char *adapter)
{
    static const char *const results[] = { "model.safetensors", "model.safetensors.index.json",
                                           "pytorch_model.bin", "adapter_model.safetensors",
                                           "adapter_model.bin" };
    const struct {
        const char *option, *folder;
    } inputs[] = { { "--model", replaced }, { "--adapter", adapter } };
    TRY(folder_try(out));
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i].folder && is_same_folder(out, inputs[i].folder))
            return fail(ERR_INPUT,
                        "%s: is the folder of %s, whose weights the result would replace; give "
                        "another --out",
                        out, inputs[i].option);
    for (size_t i = 0; i < sizeof results / sizeof *results && !checkpoint_any(out); i++)
        if (folder_has(out, results[i]))
            return fail(ERR_INPUT,
                        "%s: already holds %s, and no checkpoint to continue from; give another "
                        "--out",
                        out, results[i]);
    return OK;
}

enum err train_out_lock(struct arena *arena, const char *out, bool writes)
{
    if (mkdir(out, 0777) && errno != EEXIST)
        return fail(ERR_INPUT, "%s: cannot be created: %s", out, strerror(errno));
    if (!writes)
        return OK;
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const char *path = text_format(arena, "%s/.lock", out);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(ERR_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    if (fcntl(fd, F_SETLK, &whole))
        return fail(ERR_INPUT, "%s: another run is writing there; give another --out", out);
    return OK; // the file stays open
}
