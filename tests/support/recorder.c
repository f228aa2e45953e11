/* Records what a process does to the files of one folder, for tests of power loss (tests/support/power_loss.py).

   Preloaded (LD_PRELOAD), it stands before the C library's calls that change a disk. Each that meets MNEMO_RECORD_ROOT
   is carried out and, if it succeeded, appended to MNEMO_RECORD with all its data, one at a time, so that the record
   has one order. What cannot be recorded (a writable shared mapping, a hard link) is recorded as such, and the reader
   refuses the record.

   MNEMO_RECORD_FAIL=n makes the n-th sync of the folder's files fail with EIO, as a disk does that lost what it was
   given: it is not carried out, and recorded as failed.

   An entry: kind, flag, lengths of two paths and of the data, inode, offset; then the paths, relative to the folder,
   and the data. Little-endian, packed. Linux on a 64-bit machine. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FILES_MAX 65536
#define PIECES_MAX 1024

struct entry {
    uint8_t kind, flag;
    uint16_t path, target;
    uint32_t data;
    uint64_t inode, offset;
} __attribute__((packed));

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static dev_t root_device;
static int record = -1;
static long fail_at, syncs;
static uint64_t inodes[FILES_MAX]; /* of what was opened or made in the folder; 0: none */

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("MNEMO_RECORD_ROOT"), *to = getenv("MNEMO_RECORD"), *fail = getenv("MNEMO_RECORD_FAIL");
    struct stat is;
    if (!folder || !to || !realpath(folder, root) || stat(root, &is)) return;
    root_length = strlen(root);
    root_device = is.st_dev;
    fail_at = fail ? atol(fail) : 0;
    record = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static uint64_t *slot_of(uint64_t inode) {
    size_t place = inode * 0x9E3779B97F4A7C15u >> 48;
    while (inodes[place % FILES_MAX] && inodes[place % FILES_MAX] != inode) place++;
    return &inodes[place % FILES_MAX];
}

/* The inode behind fd if it is one of the folder's, else 0. */
static uint64_t watched(int fd, struct stat *is) {
    if (record < 0 || fd < 0 || fstat(fd, is) || is->st_dev != root_device) return 0;
    if (!S_ISREG(is->st_mode) && !S_ISDIR(is->st_mode)) return 0;
    return *slot_of(is->st_ino);
}

/* The path below the folder that `at` and `path` name, without a leading slash; NULL when it is elsewhere. */
static const char *below(int at, const char *path, char *buffer) {
    char link[64];
    ssize_t length = 0;
    if (record < 0 || !path) return NULL;
    if (path[0] != '/') {
        snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
        length = readlink(link, buffer, PATH_MAX - 1);
        if (length < 0) return NULL;
        buffer[length++] = '/';
    }
    if ((size_t)length + strlen(path) >= PATH_MAX) return NULL;
    strcpy(buffer + length, path);
    if (strncmp(buffer, root, root_length) || (buffer[root_length] != '/' && buffer[root_length])) return NULL;
    return buffer[root_length] ? buffer + root_length + 1 : buffer + root_length;
}

static void append(char kind, int flag, uint64_t inode, uint64_t offset, const char *path, const char *target,
                   const struct iovec *data, int pieces, size_t length) {
    struct entry head = {kind, flag, path ? strlen(path) : 0, target ? strlen(target) : 0, length, inode, offset};
    struct iovec out[PIECES_MAX + 3] = {{&head, sizeof head}, {(char *)path, head.path}, {(char *)target, head.target}};
    int count = 3;
    for (size_t left = length; pieces > 0 && left > 0; data++, pieces--) {
        size_t take = data->iov_len < left ? data->iov_len : left;
        out[count++] = (struct iovec){data->iov_base, take};
        left -= take;
    }
    if (syscall(SYS_writev, record, out, count) != (long)(sizeof head + head.path + head.target + length)) abort();
}

static void unrecordable(const char *what) { append('!', 0, 0, 0, what, NULL, NULL, 0, 0); }

/* Opening and making */

static int open_at(int at, const char *path, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    const char *name = below(at, path, buffer);
    if (!name) return syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&one_at_a_time);
    struct stat was, is;
    int was_there = !fstatat(at, path, &was, 0);
    int fd = syscall(SYS_openat, at, path, flags, mode);
    int error = errno;
    if (fd >= 0 && !fstat(fd, &is)) {
        *slot_of(is.st_ino) = is.st_ino;
        if (!was_there)
            append('c', 0, is.st_ino, 0, name, NULL, NULL, 0, 0);
        else if (flags & O_TRUNC && was.st_size)
            append('t', 0, is.st_ino, 0, NULL, NULL, NULL, 0, 0);
    }
    pthread_mutex_unlock(&one_at_a_time);
    errno = error;
    return fd;
}

#define WITH_MODE(last)                    \
    mode_t mode = 0;                       \
    if (flags & (O_CREAT | O_TMPFILE)) {   \
        va_list rest;                      \
        va_start(rest, last);              \
        mode = va_arg(rest, mode_t);       \
        va_end(rest);                      \
    }

EXPORT int open(const char *path, int flags, ...) { WITH_MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
EXPORT int open64(const char *path, int flags, ...) { WITH_MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
EXPORT int openat(int at, const char *path, int flags, ...) { WITH_MODE(flags) return open_at(at, path, flags, mode); }
EXPORT int openat64(int at, const char *path, int flags, ...) { WITH_MODE(flags) return open_at(at, path, flags, mode); }
EXPORT int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
EXPORT int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
EXPORT int __openat_2(int at, const char *path, int flags) { return open_at(at, path, flags, 0); }
EXPORT int __openat64_2(int at, const char *path, int flags) { return open_at(at, path, flags, 0); }
EXPORT int creat(const char *path, mode_t mode) {
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
EXPORT int creat64(const char *path, mode_t mode) { return creat(path, mode); }

EXPORT int mkdirat(int at, const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    const char *name = below(at, path, buffer);
    pthread_mutex_lock(&one_at_a_time);
    int result = syscall(SYS_mkdirat, at, path, mode), error = errno;
    struct stat is;
    if (name && !result && !fstatat(at, path, &is, 0)) {
        *slot_of(is.st_ino) = is.st_ino;
        append('d', 0, is.st_ino, 0, name, NULL, NULL, 0, 0);
    }
    pthread_mutex_unlock(&one_at_a_time);
    errno = error;
    return result;
}
EXPORT int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* Names */

EXPORT int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    char buffer[PATH_MAX], second[PATH_MAX];
    const char *name = below(from_at, from, buffer), *target = below(to_at, to, second);
    pthread_mutex_lock(&one_at_a_time);
    int result = syscall(SYS_renameat2, from_at, from, to_at, to, flags), error = errno;
    if (!result && (name || target)) {
        if (!name || !target || flags)
            unrecordable("a rename into or out of the folder");
        else
            append('r', 0, 0, 0, name, target, NULL, 0, 0);
    }
    pthread_mutex_unlock(&one_at_a_time);
    errno = error;
    return result;
}
EXPORT int renameat(int from_at, const char *from, int to_at, const char *to) {
    return renameat2(from_at, from, to_at, to, 0);
}
EXPORT int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

EXPORT int unlinkat(int at, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *name = below(at, path, buffer);
    pthread_mutex_lock(&one_at_a_time);
    int result = syscall(SYS_unlinkat, at, path, flags), error = errno;
    if (name && !result) append('u', 0, 0, 0, name, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&one_at_a_time);
    errno = error;
    return result;
}
EXPORT int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
EXPORT int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

EXPORT int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    char buffer[PATH_MAX];
    int result = syscall(SYS_linkat, from_at, from, to_at, to, flags), error = errno;
    if (!result && below(to_at, to, buffer)) unrecordable("a hard link");
    errno = error;
    return result;
}
EXPORT int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
EXPORT int symlinkat(const char *text, int at, const char *path) {
    char buffer[PATH_MAX];
    int result = syscall(SYS_symlinkat, text, at, path), error = errno;
    if (!result && below(at, path, buffer)) unrecordable("a symbolic link");
    errno = error;
    return result;
}
EXPORT int symlink(const char *text, const char *path) { return symlinkat(text, AT_FDCWD, path); }

/* Data */

static ssize_t write_pieces(int fd, const struct iovec *data, int pieces, off_t offset, int is_placed) {
    struct stat is;
    uint64_t inode = watched(fd, &is);
    pthread_mutex_t *lock = inode ? &one_at_a_time : NULL;
    if (lock) pthread_mutex_lock(lock);
    int flags = inode ? fcntl(fd, F_GETFL) : 0;
    if (inode && flags & O_APPEND)
        offset = fstat(fd, &is) ? 0 : is.st_size;
    else if (inode && !is_placed)
        offset = lseek(fd, 0, SEEK_CUR);
    ssize_t result = is_placed ? syscall(SYS_pwritev, fd, data, pieces, offset, 0) : syscall(SYS_writev, fd, data, pieces);
    int error = errno;
    if (inode && result > 0) append('w', !!(flags & O_DSYNC), inode, offset, NULL, NULL, data, pieces, result);
    if (lock) pthread_mutex_unlock(lock);
    errno = error;
    return result;
}

EXPORT ssize_t write(int fd, const void *data, size_t length) {
    struct iovec piece = {(void *)data, length};
    return write_pieces(fd, &piece, 1, 0, 0);
}
EXPORT ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    struct iovec piece = {(void *)data, length};
    return write_pieces(fd, &piece, 1, offset, 1);
}
EXPORT ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) {
    return pwrite(fd, data, length, offset);
}
EXPORT ssize_t writev(int fd, const struct iovec *data, int pieces) { return write_pieces(fd, data, pieces, 0, 0); }
EXPORT ssize_t pwritev(int fd, const struct iovec *data, int pieces, off_t offset) {
    return write_pieces(fd, data, pieces, offset, 1);
}
EXPORT ssize_t pwritev64(int fd, const struct iovec *data, int pieces, off_t offset) {
    return write_pieces(fd, data, pieces, offset, 1);
}
EXPORT ssize_t pwritev2(int fd, const struct iovec *data, int pieces, off_t offset, int flags) {
    (void)flags;
    return offset == -1 ? write_pieces(fd, data, pieces, 0, 0) : write_pieces(fd, data, pieces, offset, 1);
}

/* Those who copy within the kernel are told that this file cannot, and write instead. */
EXPORT ssize_t sendfile(int to, int from, off_t *offset, size_t count) {
    struct stat is;
    if (watched(to, &is)) return errno = EINVAL, -1;
    return syscall(SYS_sendfile, to, from, offset, count);
}
EXPORT ssize_t sendfile64(int to, int from, off_t *offset, size_t count) { return sendfile(to, from, offset, count); }
EXPORT ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t count, unsigned flags) {
    struct stat is;
    if (watched(to, &is)) return errno = EINVAL, -1;
    return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, count, flags);
}

static int resize(int fd, off_t size, char kind, long result) {
    struct stat is;
    uint64_t inode = watched(fd, &is);
    int error = errno;
    if (inode && !result && is.st_size >= size) append(kind, 0, inode, size, NULL, NULL, NULL, 0, 0);
    errno = error;
    return result;
}

EXPORT int ftruncate(int fd, off_t size) {
    pthread_mutex_lock(&one_at_a_time);
    int result = resize(fd, size, 't', syscall(SYS_ftruncate, fd, size));
    pthread_mutex_unlock(&one_at_a_time);
    return result;
}
EXPORT int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
EXPORT int truncate(const char *path, off_t size) {
    int fd = open_at(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0) return -1;
    int result = ftruncate(fd, size), error = errno;
    close(fd);
    errno = error;
    return result;
}
EXPORT int truncate64(const char *path, off_t size) { return truncate(path, size); }

/* Allocating makes a file longer, by zeros, or leaves its length alone. */
EXPORT int fallocate(int fd, int mode, off_t offset, off_t length) {
    struct stat is;
    pthread_mutex_lock(&one_at_a_time);
    uint64_t inode = watched(fd, &is);
    long result = syscall(SYS_fallocate, fd, mode, offset, length);
    int error = errno;
    if (inode && !result && mode && mode != FALLOC_FL_KEEP_SIZE) unrecordable("a hole");
    if (inode && !result && !mode && is.st_size < offset + length)
        append('a', 0, inode, offset + length, NULL, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&one_at_a_time);
    errno = error;
    return result;
}
EXPORT int fallocate64(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }
EXPORT int posix_fallocate(int fd, off_t offset, off_t length) { return fallocate(fd, 0, offset, length) ? errno : 0; }
EXPORT int posix_fallocate64(int fd, off_t offset, off_t length) { return posix_fallocate(fd, offset, length); }

EXPORT void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    struct stat is;
    char link[64], path[PATH_MAX];
    void *result = (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
    if (result != MAP_FAILED && protection & PROT_WRITE && (flags & MAP_TYPE) != MAP_PRIVATE && watched(fd, &is)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t end = readlink(link, path, sizeof path - 1);
        path[end < 0 ? 0 : end] = 0;
        const char *name = strrchr(path, '/');
        /* LMDB's table of readers says nothing that outlives the processes. */
        if (!name || strcmp(name, "/lock.mdb")) unrecordable("a writable mapping");
    }
    return result;
}
EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return mmap(address, length, protection, flags, fd, offset);
}

/* Syncing */

static int sync_by(long call, int fd) {
    struct stat is;
    pthread_mutex_lock(&one_at_a_time);
    uint64_t inode = watched(fd, &is);
    int fails = inode && ++syncs == fail_at;
    int result = fails ? -1 : syscall(call, fd), error = fails ? EIO : errno;
    if (inode) append('s', result != 0, inode, 0, NULL, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&one_at_a_time);
    errno = error;
    return result;
}

EXPORT int fsync(int fd) { return sync_by(SYS_fsync, fd); }
EXPORT int fdatasync(int fd) { return sync_by(SYS_fdatasync, fd); }
