// SPDX-License-Identifier: Apache-2.0
// A preloaded library that lets the n-th call of a kind fail: FAULT=KIND:N:FILE. FILE is mapped and
// counts the calls of each kind, over all processes that fork from the first. N = 0 only counts.
// Calls before main() are not counted, and programs that are started with exec are left alone.

#define _GNU_SOURCE

#include "test/faults/kinds.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t *counts; // one of each kind; NULL before main()
static int failing = -1;
static uint64_t failing_call;

// A sanitizer asks for the stack of each new thread and cannot do without an answer.
static _Thread_local __attribute__((tls_model("initial-exec"))) bool for_sanitizer;

static bool fails(enum fault_kind kind, int error)
{
    if (!counts || for_sanitizer)
        return false;
    uint64_t call = atomic_fetch_add(&counts[kind], 1) + 1;
    if ((int)kind != failing || call != failing_call)
        return false;
    errno = error;
    return true;
}

// The function that this library stands before.
#define REAL(name)                 \
    static __typeof__(name) *real; \
    if (!real)                     \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

// --- memory ------------------------------------------------------------------

// Of libc, or of a sanitizer that stands before it.
void *malloc(size_t size)
{
    REAL(malloc);
    return fails(FAULT_ALLOC, ENOMEM) ? NULL : real(size);
}

// dlsym() may itself call calloc(): the first call is made before there is a function to hand it
// to.
void *calloc(size_t count, size_t size)
{
    static bool is_looking;
    if (!counts && is_looking)
        return NULL;
    is_looking = true;
    REAL(calloc);
    is_looking = false;
    return fails(FAULT_ALLOC, ENOMEM) ? NULL : real(count, size);
}

void *realloc(void *old, size_t size)
{
    REAL(realloc);
    return fails(FAULT_ALLOC, ENOMEM) ? NULL : real(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    REAL(aligned_alloc);
    return fails(FAULT_ALLOC, ENOMEM) ? NULL : real(align, size);
}

int posix_memalign(void **at, size_t align, size_t size)
{
    REAL(posix_memalign);
    return fails(FAULT_ALLOC, ENOMEM) ? ENOMEM : real(at, align, size);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fails(FAULT_MMAP, ENOMEM))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

// --- files -------------------------------------------------------------------

ssize_t read(int fd, void *at, size_t size)
{
    return fails(FAULT_READ, EIO) ? -1 : syscall(SYS_read, fd, at, size);
}

ssize_t pread(int fd, void *at, size_t size, off_t offset)
{
    return fails(FAULT_READ, EIO) ? -1 : syscall(SYS_pread64, fd, at, size, offset);
}

ssize_t pread64(int fd, void *at, size_t size, off_t offset)
{
    return fails(FAULT_READ, EIO) ? -1 : syscall(SYS_pread64, fd, at, size, offset);
}

ssize_t write(int fd, const void *at, size_t size)
{
    return fails(FAULT_WRITE, ENOSPC) ? -1 : syscall(SYS_write, fd, at, size);
}

ssize_t pwrite(int fd, const void *at, size_t size, off_t offset)
{
    return fails(FAULT_WRITE, ENOSPC) ? -1 : syscall(SYS_pwrite64, fd, at, size, offset);
}

ssize_t pwrite64(int fd, const void *at, size_t size, off_t offset)
{
    return fails(FAULT_WRITE, ENOSPC) ? -1 : syscall(SYS_pwrite64, fd, at, size, offset);
}

enum { ERROR_SEEN = 0x20 }; // glibc's flag behind ferror()

size_t fread(void *at, size_t size, size_t count, FILE *file)
{
    REAL(fread);
    if (!fails(FAULT_READ, EIO))
        return real(at, size, count, file);
    file->_flags |= ERROR_SEEN;
    return 0;
}

size_t fwrite(const void *at, size_t size, size_t count, FILE *file)
{
    REAL(fwrite);
    if (file == stderr || !fails(FAULT_WRITE, ENOSPC))
        return real(at, size, count, file);
    file->_flags |= ERROR_SEEN;
    return 0;
}

int fflush(FILE *file)
{
    REAL(fflush);
    if (file == stderr || !fails(FAULT_WRITE, ENOSPC))
        return real(file);
    if (file)
        file->_flags |= ERROR_SEEN;
    return EOF;
}

int fclose(FILE *file)
{
    REAL(fclose);
    bool full = fails(FAULT_WRITE, ENOSPC);
    int result = real(file);
    errno = full ? ENOSPC : errno;
    return full ? EOF : result;
}

static int open_at(int folder, const char *path, int flags, unsigned mode)
{
    return fails(FAULT_OPEN, EMFILE) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE_OF(flags, mode)                                      \
    va_list args;                                                 \
    va_start(args, flags);                                        \
    unsigned mode = (flags)&O_CREAT ? va_arg(args, unsigned) : 0; \
    va_end(args)

int open(const char *path, int flags, ...)
{
    MODE_OF(flags, mode);
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, mode);
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    MODE_OF(flags, mode);
    return open_at(folder, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    REAL(fopen);
    return fails(FAULT_OPEN, EMFILE) ? NULL : real(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    REAL(fopen64);
    return fails(FAULT_OPEN, EMFILE) ? NULL : real(path, mode);
}

int fsync(int fd)
{
    return fails(FAULT_SYNC, EIO) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return fails(FAULT_SYNC, EIO) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to)
{
    return fails(FAULT_RENAME, EIO) ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

// --- processes, libraries, clocks --------------------------------------------

pid_t fork(void)
{
    REAL(fork);
    return fails(FAULT_FORK, EAGAIN) ? -1 : real();
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const *arguments, char *const *variables)
{
    REAL(posix_spawn);
    return fails(FAULT_FORK, EAGAIN) ? EAGAIN
                                     : real(pid, path, actions, attributes, arguments, variables);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    REAL(pthread_create);
    return fails(FAULT_THREAD, EAGAIN) ? EAGAIN : real(thread, attributes, start, argument);
}

int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
    REAL(pthread_getattr_np);
    for_sanitizer = true;
    int result = real(thread, attributes);
    for_sanitizer = false;
    return result;
}

void *dlopen(const char *name, int flags)
{
    REAL(dlopen);
    return fails(FAULT_LIBRARY, ENOENT) ? NULL : real(name, flags);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    return fails(FAULT_CLOCK, EINVAL) ? -1 : (int)syscall(SYS_clock_gettime, clock, now);
}

time_t time(time_t *now)
{
    struct timespec precise;
    time_t result = -1;
    if (!fails(FAULT_CLOCK, EINVAL) && !syscall(SYS_clock_gettime, CLOCK_REALTIME, &precise))
        result = precise.tv_sec;
    if (now)
        *now = result;
    return result;
}

// --- beginning with main() ---------------------------------------------------

static int (*real_main)(int, char **, char **);

static void begin(void)
{
    const char *wanted = getenv("FAULT");
    char kind[32], path[4096];
    unsigned long long call;
    if (!wanted || sscanf(wanted, "%31[a-z]:%llu:%4095s", kind, &call, path) != 3)
        return;
    for (int i = 0; i < FAULT_KINDS; i++)
        if (!strcmp(fault_kinds[i], kind))
            failing = i;
    failing_call = call;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    void *at = (void *)syscall(SYS_mmap, NULL, FAULT_KINDS * sizeof *counts, PROT_READ | PROT_WRITE,
                               MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    unsetenv("FAULT");
    unsetenv("LD_PRELOAD");
    counts = at == MAP_FAILED ? NULL : at;
}

static int counted_main(int argc, char **argv, char **variables)
{
    begin();
    return real_main(argc, argv, variables);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
    REAL(__libc_start_main);
    real_main = main;
    return real(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
