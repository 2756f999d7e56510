// SPDX-License-Identifier: Apache-2.0
// Reads small files and maps large ones; writes through a temporary name and a rename.

#define _GNU_SOURCE // realpath

#include "host/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAPPED_FROM = 16 << 20, MAPS = 64, TRIES = 100 };

// --- mapped files that shrink ------------------------------------------------
//
// Reading a page past the end of a mapped file raises SIGBUS. A log or data file may be truncated
// at any time (logrotate's copytruncate does), so small files are read into memory instead, and a
// large one that shrinks ends the program with a sentence and the exit code of bad input.

static struct map {
    const char *at;
    size_t size;
    char name[256];
} maps[MAPS]; // those beyond MAPS are mapped too, but without a name in the sentence
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int mapped_count;

static void put_error(const char *part)
{
    if (write(STDERR_FILENO, part, strlen(part)) < 0)
        return; // nobody reads it
}

static void on_shrunken(int number, siginfo_t *info, void *context)
{
    (void)context;
    const char *at = info->si_addr, *name = NULL;
    for (int i = 0; i < MAPS && !name; i++)
        if (maps[i].at && at >= maps[i].at && at < maps[i].at + maps[i].size)
            name = maps[i].name;
    if (info->si_code != BUS_ADRERR || !mapped_count) { // not ours: let it end the program
        signal(number, SIG_DFL);
        return;
    }
    put_error("gpuhours: ");
    put_error(name ? name : "a file");
    put_error(": was shortened while it was read; copy it and read the copy\n");
    _exit(ERR_INPUT);
}

static void remember_map(const char *at, size_t size, const char *path)
{
    pthread_mutex_lock(&maps_lock);
    if (!mapped_count++) {
        struct sigaction action = { .sa_sigaction = on_shrunken, .sa_flags = SA_SIGINFO };
        sigaction(SIGBUS, &action, NULL);
    }
    for (int i = 0; i < MAPS; i++)
        if (!maps[i].at) {
            snprintf(maps[i].name, sizeof maps[i].name, "%s", path);
            maps[i].size = size;
            maps[i].at = at;
            break;
        }
    pthread_mutex_unlock(&maps_lock);
}

static void forget_map(const char *at)
{
    pthread_mutex_lock(&maps_lock);
    for (int i = 0; i < MAPS; i++)
        if (maps[i].at == at)
            maps[i].at = NULL;
    mapped_count--;
    pthread_mutex_unlock(&maps_lock);
}

// --- reading -----------------------------------------------------------------

static enum err read_all(struct file *file, int fd, const char *path, size_t expected)
{
    size_t size = 0, room = expected + 1 > 1 << 16 ? expected + 1 : 1 << 16;
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
        return read_all(file, STDIN_FILENO, "standard input", 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(ERR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    struct stat about;
    enum err err = OK;
    if (fstat(fd, &about)) {
        err = fail(ERR_INPUT, "%s: its status cannot be read: %s", path, strerror(errno));
    } else if (S_ISDIR(about.st_mode)) {
        err = fail(ERR_INPUT, "%s: is a folder; give a file", path);
    } else if (!S_ISREG(about.st_mode) || about.st_size < MAPPED_FROM) {
        err = read_all(file, fd, path, S_ISREG(about.st_mode) ? (size_t)about.st_size : 0);
    } else {
        void *at = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED) {
            err = read_all(file, fd, path, (size_t)about.st_size);
        } else {
            remember_map(at, (size_t)about.st_size, path);
            file->mapped = at;
            file->text = (struct text){ at, (size_t)about.st_size };
        }
    }
    close(fd);
    return err;
}

void file_close(struct file *file)
{
    if (file->mapped) {
        forget_map(file->mapped);
        munmap(file->mapped, file->text.size);
    }
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

// --- writing -----------------------------------------------------------------

static bool write_all(int fd, struct text content)
{
    while (content.size) {
        ssize_t done = write(fd, content.at, content.size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        content.at += done;
        content.size -= (size_t)done;
    }
    return true;
}

static enum err refuse_write(const char *path)
{
    return fail(ERR_INPUT, "%s: cannot be written: %s", path, strerror(errno));
}

// A device, FIFO or socket keeps its place in the file system: its content goes through it.
static enum err write_through(const char *path, struct text content, int flags)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY | flags, 0666);
    if (fd < 0)
        return refuse_write(path);
    bool good = write_all(fd, content);
    int problem = errno;
    good = !close(fd) && good;
    errno = good ? 0 : problem;
    return good ? OK : refuse_write(path);
}

// Creates a new file next to path. O_EXCL refuses every name that exists, also a planted link.
static int create_beside(char temporary[4096], const char *path, mode_t mode)
{
    static atomic_uint serial;
    for (int i = 0; i < TRIES; i++) {
        int size = snprintf(temporary, 4096, "%s.%d-%u.tmp", path, (int)getpid(),
                            atomic_fetch_add(&serial, 1));
        if (size < 0 || size >= 4096) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

// Writes a temporary file and renames it. `former` is the file that it replaces, or NULL: its
// permissions and, where the system allows it, its owner stay.
static enum err replace(const char *path, struct text content, const struct stat *former)
{
    char temporary[4096];
    mode_t mode = former ? former->st_mode & 0777 : 0666;
    int fd = create_beside(temporary, path, mode);
    if (fd < 0)
        return refuse_write(path);
    bool good = !former || !fchmod(fd, mode);
    if (former && (former->st_uid != geteuid() || former->st_gid != getegid()))
        good = (!fchown(fd, former->st_uid, former->st_gid) || errno == EPERM) && good;
    good = good && write_all(fd, content) && !fsync(fd);
    int problem = errno;
    good = !close(fd) && good;
    if (good && !rename(temporary, path))
        return OK;
    errno = good ? errno : problem;
    enum err err = refuse_write(path);
    unlink(temporary);
    return err;
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
    struct stat about, target;
    if (lstat(path, &about))
        return errno == ENOENT ? replace(path, content, NULL) : refuse_write(path);
    if (!S_ISLNK(about.st_mode))
        return S_ISREG(about.st_mode) ? replace(path, content, &about)
                                      : write_through(path, content, 0);
    if (stat(path, &target)) // a link to a file that does not exist yet
        return write_through(path, content, O_CREAT);
    char *real = S_ISREG(target.st_mode) ? realpath(path, NULL) : NULL;
    enum err err = real ? replace(real, content, &target) : write_through(path, content, 0);
    free(real);
    return err;
}

enum err file_try(const char *path)
{
    char temporary[4096];
    struct stat about;
    if (!path || !strcmp(path, "-"))
        return OK;
    bool exists = !stat(path, &about);
    if (exists && S_ISDIR(about.st_mode)) {
        errno = EISDIR;
        return refuse_write(path);
    }
    if (exists && !S_ISREG(about.st_mode)) // opening a FIFO would wait for its reader
        return access(path, W_OK) ? refuse_write(path) : OK;
    char *real = exists ? realpath(path, NULL) : NULL;
    int fd = create_beside(temporary, real ? real : path, 0666);
    free(real);
    if (fd < 0)
        return refuse_write(path);
    close(fd);
    unlink(temporary);
    return OK;
}

static bool begins_with_folder(const char *path, const char *folder)
{
    size_t size = strlen(folder);
    return !strncmp(path, folder, size) && (path[size] == '/' || folder[size - 1] == '/');
}

bool file_lies_in(const char *path, const char *folder)
{
    struct arena arena = { 0 };
    char *file = realpath(path, NULL), *place = realpath(folder, NULL);
    char *above = realpath(text_format(&arena, "%s/..", folder), NULL);
    char *blobs = realpath(text_format(&arena, "%s/../../blobs", folder), NULL);
    bool is_snapshot = above && text_ends(text_of(above), "/snapshots") && blobs;
    bool found =
        file && place &&
        (begins_with_folder(file, place) || (is_snapshot && begins_with_folder(file, blobs)));
    free(file), free(place), free(above), free(blobs);
    arena_release(&arena);
    return found;
}

// --- writing in pieces -------------------------------------------------------

enum err file_create(struct file_new *file, const char *path)
{
    file->path = path;
    file->fd = create_beside(file->temporary, path, 0666);
    return file->fd < 0 ? refuse_write(path) : OK;
}

enum err file_append(struct file_new *file, struct text piece)
{
    return write_all(file->fd, piece) ? OK : refuse_write(file->path);
}

enum err file_commit(struct file_new *file)
{
    bool good = !fsync(file->fd) && !rename(file->temporary, file->path);
    if (!good)
        return refuse_write(file->path);
    close(file->fd);
    file->fd = -1;
    return OK;
}

void file_abandon(struct file_new *file)
{
    if (file->fd < 0)
        return;
    close(file->fd);
    unlink(file->temporary);
    file->fd = -1;
}

void file_make_folders(const char *path)
{
    struct arena scratch = { 0 };
    char *folder = arena_copy(&scratch, path, strlen(path));
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(folder, 0700);
        *slash = '/';
    }
    arena_release(&scratch);
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
