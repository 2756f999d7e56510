// SPDX-License-Identifier: Apache-2.0
// Writes and reads one-dimensional arrays in numpy's .npy format, version 1.0.

#include "host/npy.h"

#include <errno.h>
#include <string.h>

enum { HEADER_BYTES = 128 }; // a multiple of 64, and room for any length

static const struct {
    const char *name;
    size_t bytes;
} types[] = { { "|u1", 1 }, { "<i4", 4 }, { "<i8", 8 } };

static enum err failed(const struct npy *npy)
{
    return fail(ERR_INPUT, "%s: cannot be written: %s", npy->path, strerror(errno));
}

// Magic, version 1.0, length of what follows, a Python dict padded with blanks to a line end.
static enum err write_header(struct npy *npy)
{
    char header[HEADER_BYTES + 1];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(HEADER_BYTES - 10);
    header[9] = 0;
    int size = snprintf(header + 10, sizeof header - 10,
                        "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,), }",
                        types[npy->type].name, (long long)npy->count);
    header[10 + size] = ' ';
    header[HEADER_BYTES - 1] = '\n';
    return fwrite(header, 1, HEADER_BYTES, npy->file) == HEADER_BYTES ? OK : failed(npy);
}

enum err npy_create(struct npy *npy, const char *path, enum npy_type type)
{
    *npy = (struct npy){ .file = fopen(path, "wb"), .path = path, .type = type };
    return npy->file ? write_header(npy) : failed(npy);
}

enum err npy_append(struct npy *npy, const void *items, size_t count)
{
    npy->count += (int64_t)count;
    return fwrite(items, types[npy->type].bytes, count, npy->file) == count ? OK : failed(npy);
}

enum err npy_finish(struct npy *npy)
{
    if (fseek(npy->file, 0, SEEK_SET))
        return failed(npy);
    TRY(write_header(npy));
    FILE *file = npy->file;
    npy->file = NULL;
    if (fclose(file)) {
        enum err err = failed(npy);
        remove(npy->path);
        return err;
    }
    return OK;
}

void npy_release(struct npy *npy)
{
    if (!npy->file)
        return;
    fclose(npy->file);
    remove(npy->path);
    npy->file = NULL;
}

enum err npy_read(const void **items, int64_t *count, struct text file, enum npy_type type,
                  const char *name)
{
    const unsigned char *at = (const unsigned char *)file.at;
    if (file.size < 10 || memcmp(at, "\x93NUMPY", 6) || at[6] != 1)
        return fail(ERR_INPUT, "%s: is not a .npy file of version 1", name);
    size_t start = 10 + (size_t)at[8] + 256 * (size_t)at[9];
    char header[512];
    if (start > file.size || start - 10 >= sizeof header)
        return fail(ERR_INPUT, "%s: the header of the .npy file does not end", name);
    memcpy(header, file.at + 10, start - 10);
    header[start - 10] = 0;

    const char *descr = strstr(header, "'descr':"), *shape = strstr(header, "'shape':");
    long long length = -1;
    char found[8] = "";
    if (!descr || !shape || sscanf(descr, "'descr': '%7[^']'", found) != 1 ||
        sscanf(shape, "'shape': (%lld,)", &length) != 1)
        return fail(ERR_INPUT, "%s: the header of the .npy file cannot be parsed", name);
    if (strcmp(found, types[type].name))
        return fail(ERR_INPUT, "%s: holds numbers of type %s; expected %s", name, found,
                    types[type].name);
    if (length < 0 || (file.size - start) / types[type].bytes < (size_t)length)
        return fail(ERR_INPUT, "%s: is cut off: its header promises %lld numbers", name, length);
    *items = file.at + start;
    *count = length;
    return OK;
}
