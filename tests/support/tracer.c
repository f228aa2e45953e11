/* Runs a command and records which sockets it and everything it starts make, and which files they write.

       tracer RECORD COMMAND...

   Each line of RECORD: process, system call, what (the number of the socket's family, or the flags of an opened file),
   result (negative: -errno), and for files one path or two, absolute; with tabs between. A filter of the kernel
   (seccomp) picks the calls, so that all others run at full speed. Ends with the last traced process, with the exit
   status of COMMAND; 125 where tracing is refused. Linux 5.3 or newer. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/ptrace.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "say here which architecture this is"
#endif

#define REFUSED 125
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define NONE -1
#define HERE -2 /* in place of an argument that names a folder: the current one */

/* Which argument is the number to note, and which are the folders and paths. */
static const struct call {
    const char *name;
    long number;
    int what, folder, path, second_folder, second_path;
} calls[] = {
    {"socket", SYS_socket, 0, NONE, NONE, NONE, NONE},
    {"socketpair", SYS_socketpair, 0, NONE, NONE, NONE, NONE},
    {"io_uring_setup", SYS_io_uring_setup, 0, NONE, NONE, NONE, NONE},
    {"openat", SYS_openat, 2, 0, 1, NONE, NONE},
    {"openat2", SYS_openat2, NONE, 0, 1, NONE, NONE},
    {"open_by_handle_at", SYS_open_by_handle_at, 2, NONE, NONE, NONE, NONE},
    {"mkdirat", SYS_mkdirat, NONE, 0, 1, NONE, NONE},
    {"mknodat", SYS_mknodat, NONE, 0, 1, NONE, NONE},
    {"unlinkat", SYS_unlinkat, NONE, 0, 1, NONE, NONE},
    {"symlinkat", SYS_symlinkat, NONE, 1, 2, NONE, NONE},
    {"linkat", SYS_linkat, NONE, 0, 1, 2, 3},
    {"renameat2", SYS_renameat2, NONE, 0, 1, 2, 3},
    {"truncate", SYS_truncate, NONE, HERE, 0, NONE, NONE},
    {"fchmodat", SYS_fchmodat, NONE, 0, 1, NONE, NONE},
#ifdef SYS_renameat
    {"renameat", SYS_renameat, NONE, 0, 1, 2, 3},
#endif
#ifdef SYS_open
    {"open", SYS_open, 1, HERE, 0, NONE, NONE},
    {"creat", SYS_creat, NONE, HERE, 0, NONE, NONE},
    {"mkdir", SYS_mkdir, NONE, HERE, 0, NONE, NONE},
    {"mknod", SYS_mknod, NONE, HERE, 0, NONE, NONE},
    {"rmdir", SYS_rmdir, NONE, HERE, 0, NONE, NONE},
    {"unlink", SYS_unlink, NONE, HERE, 0, NONE, NONE},
    {"symlink", SYS_symlink, NONE, HERE, 1, NONE, NONE},
    {"link", SYS_link, NONE, HERE, 0, HERE, 1},
    {"rename", SYS_rename, NONE, HERE, 0, HERE, 1},
    {"chmod", SYS_chmod, NONE, HERE, 0, NONE, NONE},
#endif
};
#define CALLS (sizeof calls / sizeof *calls)

static FILE *record;

/* Without <sys/ptrace.h>, which does not go together with the kernel's own header. */
static long ptrace(long request, pid_t thread, uintptr_t address, uintptr_t data) {
    return syscall(SYS_ptrace, request, thread, address, data);
}

static long get_call(pid_t thread, struct ptrace_syscall_info *info) {
    return ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof *info, (uintptr_t)info);
}

static void refuse(const char *what) {
    fprintf(stderr, "tracer: %s: %s\n", what, strerror(errno));
    exit(REFUSED);
}

/* The filter: stop at the calls above (of those that open, only where something can be written), and at every call of
   another architecture, whose numbers mean other things. */
static void install_filter(void) {
    struct sock_filter program[8 + 6 * CALLS];
    int n = 0;
    const struct sock_filter stop = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    const struct sock_filter pass = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
    program[n++] = stop;
    program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < CALLS; i++) {
        int is_open = calls[i].what > 0 && calls[i].path != NONE;
        program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, is_open ? 4 : 1);
        if (is_open) {
            size_t flags = offsetof(struct seccomp_data, args) + calls[i].what * sizeof(uint64_t);
            program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags);
            program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, WRITES, 1, 0);
            program[n++] = pass;
        }
        program[n++] = stop;
    }
    program[n++] = pass;
    struct sock_fprog filter = {n, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) refuse("no new privileges");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) refuse("seccomp filter");
}

/* A call that has begun in a thread and not yet ended. */
static struct pending {
    pid_t thread;
    char text[3 * PATH_MAX];
} pending[512];

static struct pending *pending_of(pid_t thread) {
    for (size_t i = 0; i < sizeof pending / sizeof *pending; i++)
        if (pending[i].thread == thread) return &pending[i];
    return NULL;
}

static pid_t process_of(pid_t thread) {
    char name[64], line[256];
    long process = thread;
    snprintf(name, sizeof name, "/proc/%d/status", thread);
    FILE *status = fopen(name, "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Tgid: %ld", &process) == 1) break;
    if (status) fclose(status);
    return process;
}

/* The text at address in the thread's memory; a page is there whole or not at all. */
static void read_text(pid_t thread, uint64_t address, char *text, size_t size) {
    size_t length = 0;
    memset(text, 0, size);
    while (length < size - 1) {
        size_t take = 4096 - (address + length) % 4096;
        if (take > size - 1 - length) take = size - 1 - length;
        struct iovec to = {text + length, take}, from = {(void *)(address + length), take};
        if (process_vm_readv(thread, &to, 1, &from, 1, 0) < 0 || memchr(text + length, 0, take)) return;
        length += take;
    }
}

static void append_path(pid_t thread, const __u64 *args, int folder, int path, char *line, size_t size) {
    char name[64], text[PATH_MAX], where[PATH_MAX] = "";
    if (path == NONE) return;
    read_text(thread, args[path], text, sizeof text);
    if (text[0] != '/') {
        int at = folder == HERE ? AT_FDCWD : (int)args[folder];
        if (at == AT_FDCWD)
            snprintf(name, sizeof name, "/proc/%d/cwd", thread);
        else
            snprintf(name, sizeof name, "/proc/%d/fd/%d", thread, at);
        ssize_t length = readlink(name, where, sizeof where - 2);
        if (length >= 0) strcpy(where + length, "/");
    }
    size_t used = strlen(line);
    snprintf(line + used, size - used, "\t%s%s", where, text);
}

static void begin_call(pid_t thread) {
    struct ptrace_syscall_info info;
    struct pending *slot = pending_of(thread);
    if (!slot) slot = pending_of(0);
    if (!slot) refuse("more threads than there is room for");
    slot->thread = thread;
    if (get_call(thread, &info) <= 0) refuse("reading a system call");
    const __u64 *args = info.seccomp.args;
    for (size_t i = 0; i < CALLS && info.arch == NATIVE; i++) {
        if ((uint64_t)calls[i].number != info.seccomp.nr) continue;
        long long what = calls[i].what == NONE ? 0 : (int)args[calls[i].what];
        /* %lld stands for the result, which is not known yet */
        snprintf(slot->text, sizeof slot->text, "%d\t%s\t%lld\t%%", process_of(thread), calls[i].name, what);
        append_path(thread, args, calls[i].folder, calls[i].path, slot->text, sizeof slot->text);
        append_path(thread, args, calls[i].second_folder, calls[i].second_path, slot->text, sizeof slot->text);
        return;
    }
    snprintf(slot->text, sizeof slot->text, "%d\tforeign\t%llu\t%%", process_of(thread), (unsigned long long)info.seccomp.nr);
}

static void end_call(pid_t thread) {
    struct ptrace_syscall_info info;
    struct pending *slot = pending_of(thread);
    if (!slot) return;
    long long result = get_call(thread, &info) > 0 ? info.exit.rval : 0;
    char *mark = strchr(slot->text, '%');
    fprintf(record, "%.*s%lld%s\n", (int)(mark - slot->text), slot->text, result, mark + 1);
    slot->thread = 0;
}

static int is_stopping(int signal) {
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

static void go_on(pid_t thread, int status) {
    int signal = WSTOPSIG(status), event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP) {
        begin_call(thread);
        ptrace(PTRACE_SYSCALL, thread, 0, 0);
    } else if (signal == (SIGTRAP | 0x80)) {
        end_call(thread);
        ptrace(PTRACE_CONT, thread, 0, 0);
    } else if (event == PTRACE_EVENT_STOP && is_stopping(signal)) {
        ptrace(PTRACE_LISTEN, thread, 0, 0);
    } else {
        ptrace(PTRACE_CONT, thread, 0, event ? 0 : signal);
    }
}

int main(int count, char **words) {
    int gate[2], status, code = 0;
    char ready;
    if (count < 3 || !(record = fopen(words[1], "we")) || pipe2(gate, O_CLOEXEC)) refuse("tracer RECORD COMMAND...");
    pid_t first = fork(), thread;
    if (first < 0) refuse("fork");
    if (!first) {
        close(gate[1]);
        if (read(gate[0], &ready, 1) != 1) exit(REFUSED);
        install_filter();
        execvp(words[2], words + 2);
        refuse(words[2]);
    }
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, first, 0, options)) refuse("this machine does not let a process be traced (ptrace)");
    fprintf(record, "%d\tfirst\t0\t0\n", first);
    if (write(gate[1], "", 1) != 1) refuse("starting");
    while ((thread = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (thread <= 0) continue;
        if (WIFSTOPPED(status)) {
            go_on(thread, status);
            continue;
        }
        if (pending_of(thread)) pending_of(thread)->thread = 0;
        if (thread == first) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return fclose(record) ? REFUSED : code;
}
