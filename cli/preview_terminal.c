/* Which graphics the terminal at stderr understands. */
#include "preview.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* TERM first: every terminal sets it anew, while other variables are inherited from the terminal that it was started
 * in. WezTerm has kitty's protocol too, but switched off by default in its older versions. */
static const struct {
    const char *variable, *part; /* of its value; NULL: it need only be set */
    cli_graphics graphics;
} terminals[] = {
    {"TERM", "kitty", CLI_KITTY},
    {"TERM", "ghostty", CLI_KITTY},
    {"TERM_PROGRAM", "ghostty", CLI_KITTY},
    {"TERM_PROGRAM", "WezTerm", CLI_ITERM2},
    {"TERM_PROGRAM", "iTerm.app", CLI_ITERM2},
    {"LC_TERMINAL", "iTerm2", CLI_ITERM2},
    {"KITTY_WINDOW_ID", NULL, CLI_KITTY},
};

/* How long the answer may take: a slow ssh's time, since an answer that comes later is typed into the shell. */
enum { ANSWER_MS = 500 };

static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value;
}

static bool term_begins(const char *word) {
    const char *term = getenv("TERM");
    return term && strncmp(term, word, strlen(word)) == 0;
}

/* tmux and screen keep the variables of the terminal around them, but not its graphics. */
static bool in_multiplexer(void) {
    return is_set("TMUX") || is_set("STY") || term_begins("tmux") || term_begins("screen");
}

static cli_graphics known_terminal(void) {
    for (size_t i = 0; i < sizeof terminals / sizeof terminals[0]; i++) {
        const char *value = getenv(terminals[i].variable), *part = terminals[i].part;
        if (value && *value && (!part || strstr(value, part))) return terminals[i].graphics;
    }
    return CLI_NO_GRAPHICS;
}

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool readable(int tty, int wait) {
    struct pollfd input = {.fd = tty, .events = POLLIN};
    return poll(&input, 1, wait) == 1 && input.revents & POLLIN;
}

/* To the last letter of the answer, or the end of the time. A key that is pressed meanwhile may stand before it. */
static bool read_answer(int tty, char *answer, size_t size) {
    int64_t end = milliseconds() + ANSWER_MS, left;
    for (size_t n = 0; n + 1 < size && (left = end - milliseconds()) > 0;) {
        if (!readable(tty, (int)left) || read(tty, answer + n, 1) != 1) return false;
        answer[++n] = '\0';
        if (answer[n - 1] == 'c' && strstr(answer, "\033[?")) return true;
    }
    return false;
}

bool cli_answer_names_sixel(const char *answer) {
    const char *at = strstr(answer, "\033[?");
    if (!at) return false;
    at += 3;
    while ((at = strchr(at, ';')) != NULL) { /* the first number is the terminal's class */
        char *end;
        if (strtol(++at, &end, 10) == 4 && (*end == ';' || *end == 'c')) return true;
    }
    return false;
}

/* Primary device attributes (DA1), asked without echo and line by line no more; signals of the keyboard still work.
 * Where something has been typed already it is not asked: that is for the shell, and would be read with the answer. */
static bool ask_for_sixel(int tty) {
    struct termios before, raw;
    char answer[64] = "";
    if (tcgetattr(tty, &before) != 0) return false;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(tty, TCSANOW, &raw) != 0) return false;
    bool asked = !readable(tty, 0) && write(tty, "\033[c", 3) == 3;
    bool answered = asked && read_answer(tty, answer, sizeof answer);
    if (asked && !answered) tcflush(tty, TCIFLUSH); /* half an answer */
    tcsetattr(tty, TCSANOW, &before);
    return answered && cli_answer_names_sixel(answer);
}

static cli_graphics asked_terminal(void) {
    if (!is_set("TERM") || term_begins("dumb")) return CLI_NO_GRAPHICS;
    int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (tty < 0) return CLI_NO_GRAPHICS;
    bool sixel = ask_for_sixel(tty);
    close(tty);
    return sixel ? CLI_SIXEL : CLI_NO_GRAPHICS;
}

cli_graphics cli_terminal_graphics(void) {
    /* Fails unless stderr is the terminal of this session: the environment tells of no other. A job in the background
     * would be stopped for changing the terminal's mode, and draw into what another program shows. */
    if (tcgetpgrp(STDERR_FILENO) != getpgrp()) return CLI_NO_GRAPHICS;
    cli_graphics known = in_multiplexer() ? CLI_NO_GRAPHICS : known_terminal();
    return known != CLI_NO_GRAPHICS ? known : asked_terminal();
}
