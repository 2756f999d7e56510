// SPDX-License-Identifier: Apache-2.0
#include "host/file.h"
#include "test/files.h"
#include "test/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static mode_t mode_of(const char *path)
{
    struct stat about;
    return lstat(path, &about) ? 0 : about.st_mode;
}

static bool holds(const char *path, const char *content)
{
    struct file file;
    if (file_open(&file, path))
        return false;
    bool same = text_is(file.text, content);
    file_close(&file);
    return same;
}

TEST(a_fifo_that_is_written_to_stays_a_fifo)
{
    const char *path = files_path("fifo");
    char got[16] = "";
    CHECK(!mkfifo(path, 0600));
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(!file_write(path, TEXT("through")));
    CHECK(read(fd, got, sizeof got) == 7 && !strcmp(got, "through"));
    CHECK(S_ISFIFO(mode_of(path)));
    close(fd);
    CHECK(!file_write("/dev/null", TEXT("gone")) && S_ISCHR(mode_of("/dev/null")));
}

TEST(a_symbolic_link_that_is_written_to_stays_and_its_target_changes)
{
    const char *target = files_write("target", TEXT("a much longer former content"));
    const char *link = files_path("link"), *dangling = files_path("dangling");
    CHECK(!symlink("target", link) && !symlink("new", dangling));
    CHECK(!file_write(link, TEXT("new")) && S_ISLNK(mode_of(link)) && holds(target, "new"));
    CHECK(!file_write(dangling, TEXT("first")) && S_ISLNK(mode_of(dangling)));
    CHECK(holds(files_path("new"), "first"));
}

TEST(a_file_that_is_replaced_keeps_its_permissions)
{
    const char *path = files_write("private", TEXT("former"));
    CHECK(!chmod(path, 0600) && !file_write(path, TEXT("new")));
    CHECK((mode_of(path) & 07777) == 0600);
    CHECK(holds(path, "new"));
}

TEST(a_link_planted_at_a_temporary_name_is_not_followed)
{
    const char *victim = files_write("victim", TEXT("precious"));
    const char *path = files_path("planted");
    CHECK(!symlink(victim, text_format(&test_arena, "%s.%d.tmp", path, (int)getpid())));
    for (int i = 0; i < 64; i++)
        CHECK(!symlink(victim, text_format(&test_arena, "%s.%d-%d.tmp", path, (int)getpid(), i)));
    CHECK(!file_write(path, TEXT("new")));
    CHECK(holds(victim, "precious") && holds(path, "new"));
}

// Reads the last byte of an open file after it was shortened; how that process ended.
static int read_shortened(const char *path, off_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), status = 0;
    if (fd < 0 || ftruncate(fd, size))
        return -1;
    int pid = (int)fork();
    if (!pid) {
        struct file file;
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDERR_FILENO);
        _exit(file_open(&file, path) || ftruncate(fd, 0) || file.text.at[size - 1]);
    }
    waitpid(pid, &status, 0);
    close(fd);
    unlink(path);
    return status;
}

TEST(a_file_that_shrinks_while_it_is_read_ends_no_program_by_a_signal)
{
    CHECK((read_shortened(files_path("log"), 100000)) == 0);
    int status = read_shortened(files_path("large"), 64 << 20);
    CHECK(WIFEXITED(status));
    CHECK((WEXITSTATUS(status)) == ERR_INPUT);
}

TEST(a_file_that_is_tried_is_left_as_it_was)
{
    const char *path = files_path("tried"), *fifo = files_path("tried-fifo");
    CHECK(!file_try(path) && access(path, F_OK));
    CHECK(!file_write(path, TEXT("kept")) && !file_try(path) && holds(path, "kept"));
    CHECK(!mkfifo(fifo, 0600) && !file_try(fifo)); // does not wait for a reader
    CHECK(!file_try(NULL) && !file_try("-") && !file_try("/dev/null"));
    CHECK(file_try("test/nowhere/tried") == ERR_INPUT);
    CHECK(strstr(error_text(), "test/nowhere/tried: cannot be written"));
    CHECK(file_try("test/data") == ERR_INPUT && strstr(error_text(), "Is a directory"));
}
