// SPDX-License-Identifier: Apache-2.0
// Follows growing log files: finds them, reads what was added, notices rotation and truncation.

#include "host/follow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double SCAN_SECONDS = 0.5;
enum { PIECE = 1 << 16, MOST_PIECES = 256, MOST_WHOLE = 64 << 20 };

static const struct {
    const char *begins, *ends;
    bool whole;
} follow_names[] = {
    { "trainer_state", ".json", true },    // transformers, in each checkpoint
    { "events.out.tfevents.", "", false }, // TensorBoard
    { "", ".jsonl", false },               // metrics, LLaMA-Factory's trainer_log
    { "", ".log", false },
};
enum { NAMES = sizeof follow_names / sizeof *follow_names };

static int find_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct text name = text_of(slash ? slash + 1 : path);
    for (int i = 0; i < NAMES; i++) {
        size_t size = strlen(follow_names[i].begins);
        if (name.size >= size && !memcmp(name.at, follow_names[i].begins, size) &&
            text_ends(name, follow_names[i].ends))
            return i;
    }
    return -1;
}

// --- one file ----------------------------------------------------------------

static void look(struct follow_file *file, const struct stat *about)
{
    file->device = (uint64_t)about->st_dev;
    file->inode = (uint64_t)about->st_ino;
    file->size = about->st_size;
    file->modified_seconds = (double)about->st_mtim.tv_sec + 1e-9 * (double)about->st_mtim.tv_nsec;
}

static void close_file(struct follow_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static bool give(struct follow *follow, struct follow_file *file, struct text bytes, double seconds)
{
    follow->give(follow->context, &(struct follow_piece){ .path = file->path,
                                                          .file = (int)(file - follow->files),
                                                          .whole = file->whole,
                                                          .begins = file->begins,
                                                          .bytes = bytes,
                                                          .seconds = seconds });
    file->begins = false;
    return true;
}

// Compares the first bytes with those stored, then stores more of them; false: it is another file.
static bool same_head(struct follow_file *file)
{
    char head[FOLLOW_HEAD];
    ssize_t size = pread(file->fd, head, sizeof head, 0);
    if (size < (ssize_t)file->head_size || memcmp(head, file->head, file->head_size))
        return false;
    memcpy(file->head, head, (size_t)size);
    file->head_size = (size_t)size;
    return true;
}

static void begin_anew(struct follow_file *file)
{
    file->offset = 0;
    file->head_size = 0;
    file->begins = true;
}

static bool read_added(struct follow *follow, struct follow_file *file, double seconds)
{
    struct stat about;
    bool given = false;
    char piece[PIECE];
    if (fstat(file->fd, &about))
        return false;
    if (about.st_size < file->offset || !same_head(file)) {
        begin_anew(file);
        same_head(file);
    }
    for (int i = 0; i < MOST_PIECES; i++) {
        ssize_t size = pread(file->fd, piece, sizeof piece, file->offset);
        if (size <= 0)
            break;
        file->offset += size;
        given = give(follow, file, (struct text){ piece, (size_t)size }, seconds);
    }
    return given;
}

// If the path names another file now, the rest of the old one is read first.
static bool poll_stream(struct follow *follow, struct follow_file *file, double seconds)
{
    bool given = file->fd >= 0 && read_added(follow, file, seconds);
    struct stat about;
    if (stat(file->path, &about) || !S_ISREG(about.st_mode))
        return given;
    bool other = file->device != (uint64_t)about.st_dev || file->inode != (uint64_t)about.st_ino;
    bool grown = file->size != about.st_size; // of one that is not open
    if (!other && (file->fd >= 0 || !grown))
        return given;
    close_file(file);
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &about))
        return given;
    if (other)
        begin_anew(file);
    look(file, &about);
    return read_added(follow, file, seconds) || given;
}

static bool poll_whole(struct follow *follow, struct follow_file *file, double seconds)
{
    struct follow_file before = *file;
    struct stat about;
    if (stat(file->path, &about) || !S_ISREG(about.st_mode) || about.st_size > MOST_WHOLE)
        return false;
    look(file, &about);
    if (before.inode == file->inode && before.size == file->size &&
        before.modified_seconds == file->modified_seconds)
        return false;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    char *text = malloc((size_t)about.st_size + 1);
    ssize_t size = fd >= 0 && text ? read(fd, text, (size_t)about.st_size) : -1;
    bool given = size > 0 && give(follow, file, (struct text){ text, (size_t)size }, seconds);
    free(text);
    if (fd >= 0)
        close(fd);
    return given;
}

// --- which files -------------------------------------------------------------

static bool is_known(const struct follow *follow, const char *path)
{
    for (int i = 0; i < follow->count; i++)
        if (!strcmp(follow->files[i].path, path))
            return true;
    return false;
}

static void add_file(struct follow *follow, const char *path, bool whole)
{
    struct stat about;
    if (is_known(follow, path))
        return;
    follow->full = follow->count == FOLLOW_FILES;
    if (follow->full)
        return;
    struct follow_file *file = &follow->files[follow->count++];
    *file = (struct follow_file){
        .path = text_copy(follow->arena, text_of(path)), .fd = -1, .whole = whole, .begins = true
    };
    if (follow->started || stat(path, &about) || !S_ISREG(about.st_mode))
        return;
    look(file, &about);
    file->offset = about.st_size;
    if (!whole && follow->count <= FOLLOW_OPEN &&
        (file->fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0)
        same_head(file);
}

static void scan(struct follow *follow, const char *folder, int depth)
{
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[4096];
        struct stat about;
        if (entry->d_name[0] == '.')
            continue;
        int size = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (size < 0 || (size_t)size >= sizeof path || lstat(path, &about))
            continue;
        int name = find_name(path);
        if (S_ISDIR(about.st_mode) && depth < FOLLOW_DEPTH)
            scan(follow, path, depth + 1);
        else if (S_ISREG(about.st_mode) && name >= 0)
            add_file(follow, path, follow_names[name].whole);
    }
    if (entries)
        closedir(entries);
}

static void find_files(struct follow *follow)
{
    struct stat about;
    if (!stat(follow->path, &about) && S_ISDIR(about.st_mode)) {
        scan(follow, follow->path, 0);
        return;
    }
    int name = find_name(follow->path);
    if (!stat(follow->path, &about))
        add_file(follow, follow->path, name >= 0 && follow_names[name].whole);
}

void follow_start(struct follow *follow, struct arena *arena, const char *path,
                  follow_callback *call, void *context)
{
    *follow = (struct follow){ .arena = arena, .path = path, .give = call, .context = context };
    find_files(follow);
    follow->started = true;
    follow->scanned_seconds = NAN;
}

bool follow_poll(struct follow *follow, double seconds)
{
    bool given = false;
    if (!follow->path)
        return false;
    if (!(seconds - follow->scanned_seconds < SCAN_SECONDS)) {
        follow->scanned_seconds = seconds;
        find_files(follow);
    }
    for (int i = 0; i < follow->count; i++) {
        struct follow_file *file = &follow->files[i];
        bool added =
            file->whole ? poll_whole(follow, file, seconds) : poll_stream(follow, file, seconds);
        given = given || added;
    }
    return given;
}

void follow_end(struct follow *follow)
{
    for (int i = 0; i < follow->count; i++)
        close_file(&follow->files[i]);
    *follow = (struct follow){ 0 };
}
