/* tessera-terminal [--answer TEXT] [--typed TEXT] COMMAND ...: runs COMMAND on a terminal of its own, and passes on to
 * stdout what it prints.
 *
 *   --answer TEXT   what the terminal answers when it is asked for its attributes (ESC [ c); none: it does not answer
 *   --typed TEXT    what is typed before COMMAND starts
 *
 * Exit status: that of COMMAND; 125: it left the terminal in another mode; 124: it did not end within 60 seconds. */
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

enum { LIMIT = 60, LATE = 124, CHANGED = 125 };

typedef struct terminal {
    int master, slave; /* the slave stays open here, so that its mode can be read after the end */
    const char *answer;
    size_t matched; /* letters of the question that came last */
} terminal;

static void answer(terminal *t, const char *bytes, size_t n) {
    static const char question[] = "\033[c";
    for (size_t i = 0; i < n; i++) {
        t->matched = bytes[i] == question[t->matched] ? t->matched + 1 : bytes[i] == question[0];
        if (question[t->matched]) continue;
        t->matched = 0;
        if (t->answer) (void)!write(t->master, t->answer, strlen(t->answer));
    }
}

/* Passes on what has come within `wait` milliseconds; false: nothing. */
static bool pass_on(terminal *t, int wait) {
    char bytes[4096];
    struct pollfd output = {.fd = t->master, .events = POLLIN};
    if (poll(&output, 1, wait) != 1) return false;
    ssize_t n = read(t->master, bytes, sizeof bytes);
    if (n <= 0) return false;
    fwrite(bytes, 1, (size_t)n, stdout);
    answer(t, bytes, (size_t)n);
    return true;
}

static int watch(terminal *t, pid_t process) {
    int status = 0;
    time_t end = time(NULL) + LIMIT;
    while (waitpid(process, &status, WNOHANG) == 0) {
        pass_on(t, 20);
        if (time(NULL) < end) continue;
        kill(-process, SIGKILL);
        return LATE;
    }
    while (pass_on(t, 0)) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool same_mode(const struct termios *a, const struct termios *b) {
    return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
           a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0;
}

int main(int argc, char **argv) {
    terminal t = {0};
    const char *typed = NULL;
    struct termios before, after;
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
        *(strcmp(argv[i], "--answer") == 0 ? &t.answer : &typed) = argv[i + 1];
    if (i >= argc || openpty(&t.master, &t.slave, NULL, NULL, NULL) != 0 || tcgetattr(t.slave, &before) != 0) return 2;
    if (typed) (void)!write(t.master, typed, strlen(typed));
    pid_t process = fork();
    if (process == 0) {
        close(t.master);
        if (login_tty(t.slave) == 0) execvp(argv[i], argv + i);
        _exit(127);
    }
    int status = watch(&t, process);
    if (tcgetattr(t.slave, &after) != 0 || !same_mode(&before, &after)) status = CHANGED;
    return status;
}
