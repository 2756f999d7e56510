// Maps whole files for reading; writes through a temporary name and a rename.

#include "host/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err read_all(struct file *file, int fd, const char *path)
{
    size_t size = 0, room = 1 << 16;
    char *at = malloc(room);
    while (at) {
        ssize_t got = read(fd, at + size, room - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(at);
            return fail(ERR_INPUT, "%s: cannot be read: %s", path, strerror(errno));
        }
        if (!got)
            break;
        size += (size_t)got;
        if (size == room) {
            char *grown = realloc(at, room *= 2);
            if (!grown)
                free(at);
            at = grown;
        }
    }
    if (!at)
        return fail(ERR_INPUT, "%s: does not fit in memory", path);
    file->owned = at;
    file->text = (struct text){ at, size };
    return OK;
}

enum err file_open(struct file *file, const char *path)
{
    *file = (struct file){ 0 };
    if (!strcmp(path, "-"))
        return read_all(file, STDIN_FILENO, "standard input");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(ERR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    struct stat about;
    enum err err = OK;
    if (fstat(fd, &about)) {
        err = fail(ERR_INPUT, "%s: its status cannot be read: %s", path, strerror(errno));
    } else if (S_ISDIR(about.st_mode)) {
        err = fail(ERR_INPUT, "%s: is a folder; give a file", path);
    } else if (!S_ISREG(about.st_mode) || !about.st_size) {
        err = read_all(file, fd, path);
    } else {
        void *at = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED) {
            err = read_all(file, fd, path);
        } else {
            file->mapped = at;
            file->text = (struct text){ at, (size_t)about.st_size };
        }
    }
    close(fd);
    return err;
}

void file_close(struct file *file)
{
    if (file->mapped)
        munmap(file->mapped, file->text.size);
    free(file->owned);
    *file = (struct file){ 0 };
}

enum err file_read(struct text *out, struct arena *arena, const char *path)
{
    struct file file;
    TRY(file_open(&file, path));
    *out = (struct text){ arena_copy(arena, file.text.at, file.text.size), file.text.size };
    file_close(&file);
    return OK;
}

enum err file_write(const char *path, struct text content)
{
    if (!strcmp(path, "-")) {
        if (fwrite(content.at, 1, content.size, stdout) == content.size && !fflush(stdout))
            return OK;
        enum err lost = fail(ERR_INPUT, "cannot write standard output: %s", strerror(errno));
        clearerr(stdout); // reported
        return lost;
    }
    char temporary[4096];
    int size = snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid());
    if (size < 0 || (size_t)size >= sizeof temporary)
        return fail(ERR_INPUT, "%s: the path is too long", path);
    FILE *out = fopen(temporary, "wb");
    if (!out)
        return fail(ERR_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    bool good = fwrite(content.at, 1, content.size, out) == content.size;
    good = !fflush(out) && good;
    good = !fsync(fileno(out)) && good;
    good = !fclose(out) && good;
    if (good && !rename(temporary, path))
        return OK;
    enum err err = fail(ERR_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    unlink(temporary);
    return err;
}

enum err file_sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail(ERR_INPUT, "%s: cannot be opened as a folder: %s", path, strerror(errno));
    bool good = !fsync(fd) || errno == EINVAL; // not supported by every file system
    enum err err = good ? OK : fail(ERR_INPUT, "%s: cannot be synced: %s", path, strerror(errno));
    close(fd);
    return err;
}
