/* Progress on stderr: a bar on a terminal, else plain lines. A thread of its own keeps giving signs of life while one
 * step takes long. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* The mutable variables of the command: a signal handler reaches nothing else. */
static volatile sig_atomic_t caught;
static _Atomic(const tsr_engine *) watched;

static size_t add_text(char *line, size_t n, const char *text) {
    while (*text && n < 190) line[n++] = *text++;
    return n;
}

static size_t add_number(char *line, size_t n, int number) {
    if (number > 9) n = add_number(line, n, number / 10);
    line[n] = (char)('0' + number % 10);
    return n + 1;
}

/* "tessera: rank 1 of 2: SIGTERM in phase transformer", with nothing that a signal handler may not call. */
static void say_where(int number, const tsr_engine *engine) {
    char line[200];
    size_t n = add_number(line, add_text(line, 0, "tessera: rank "), tsr_engine_rank(engine));
    n = add_number(line, add_text(line, n, " of "), tsr_engine_size(engine));
    n = add_text(line, n, number == SIGINT ? ": SIGINT in phase " : ": SIGTERM in phase ");
    n = add_text(line, add_text(line, n, tsr_engine_phase(engine)), "\n");
    (void)!write(STDERR_FILENO, line, n);
}

/* Only the first rank is asked whether to go on; another one ends here, and the launcher ends the rest: Open MPI's at
 * once where a rank ends within a second of a signal to the launcher. So the first rank gets time to end by itself. */
static void on_signal(int number) {
    enum { LAST_WORDS_MS = 300 };
    int reason = errno;
    const tsr_engine *engine = atomic_load(&watched);
    caught = number;
    if (engine) say_where(number, engine);
    if (engine && tsr_engine_rank(engine) > 0) {
        (void)poll(NULL, 0, LAST_WORDS_MS);
        raise(number);
    }
    errno = reason;
}

void cli_watch_engine(const tsr_engine *engine) { atomic_store(&watched, engine); }

void cli_catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

const char *cli_caught_signal(void) { return caught == SIGINT ? "SIGINT" : caught ? "SIGTERM" : NULL; }

struct cli_progress {
    bool shown, terminal;
    char announced[64]; /* what is said with the first report, or "" */
    bool bar;           /* a bar without line end stands on the terminal */
    tsr_progress now;   /* the last report; component is copied below */
    char component[64];
    double reported, drawn; /* when: the last report, the last line or bar */
    pthread_t heart;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool beating, stop;
    bool told; /* that a signal came, which takes effect at the next report; or how it ended */
};

static const double MIN_LINE = 0.1, LOAD_LINE = 2.0, SILENCE = 8.0; /* seconds */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool ended(const tsr_progress *report) { return report->done >= report->total; }

/* "loading transformer" or the like, and what is done of how much, and how long it takes. */
static void describe(const cli_progress *p, char *what, char *much, size_t size) {
    const tsr_progress *now = &p->now;
    double spent = now->seconds + (ended(now) ? 0 : seconds() - p->reported), done = (double)now->done;
    unsigned long long count = now->done, total = now->total;
    char a[32], b[32];
    static const char *const names[] = {"loading", "encoding", "denoising", "decoding", "saving"};
    bool bytes = now->phase == TSR_PHASE_LOAD || now->phase == TSR_PHASE_SAVE;
    snprintf(what, size, "%s%s%s", names[now->phase], bytes ? " " : "", bytes ? p->component : "");
    if (bytes) {
        cli_size_text(done, a);
        cli_size_text((double)total, b);
        snprintf(much, size, "%s of %s, %.0f s", a, b, spent);
    } else if (now->phase != TSR_PHASE_DENOISE) {
        snprintf(much, size, "%llu of %llu, %.1f s", count, total, spent);
    } else if (!count) {
        snprintf(much, size, "step 0 of %llu, %.1f s", total, spent);
    } else {
        double step = now->seconds / done, left = step * ((double)total - done) + now->seconds - spent;
        int n = snprintf(much, size, "step %llu of %llu, %.2f s a step", count, total, step);
        if (!ended(now)) snprintf(much + n, size - (size_t)n, ", about %.0f s left", left > 0 ? left : 0);
    }
}

static void draw(cli_progress *p) {
    enum { WIDTH = 20 };
    char what[96], much[96], bar[WIDTH + 1] = "";
    describe(p, what, much, sizeof what);
    p->drawn = seconds();
    if (!p->terminal) {
        fprintf(stderr, "tessera: %s: %s\n", what, much);
        return;
    }
    double part = p->now.total ? (double)p->now.done / (double)p->now.total : 1.0;
    for (int i = 0; i < WIDTH; i++) bar[i] = i < part * WIDTH ? '#' : '.';
    p->bar = !ended(&p->now);
    fprintf(stderr, "\r%-22s [%s] %s\033[K%s", what, bar, much, p->bar ? "" : "\n");
}

static void end_bar(cli_progress *p) {
    if (p->bar) fputc('\n', stderr);
    p->bar = false;
}

void cli_progress_announce(cli_progress *p, const char *line) {
    snprintf(p->announced, sizeof p->announced, "tessera: %s\n", line);
}

bool cli_progress_report(void *user, const tsr_progress *report) {
    cli_progress *p = user;
    if (caught) return false;
    if (*p->announced) fputs(p->announced, stderr);
    *p->announced = '\0';
    if (!p->shown) return true;
    const char *component = report->component ? report->component : "";
    pthread_mutex_lock(&p->lock);
    bool first = p->reported == 0 || report->phase != p->now.phase || strcmp(component, p->component) != 0;
    bool done_before = !first && ended(&p->now);
    if (first) end_bar(p);
    p->now = *report;
    snprintf(p->component, sizeof p->component, "%s", component);
    p->now.component = p->component;
    p->reported = seconds();
    double wait = p->terminal || report->phase == TSR_PHASE_DENOISE ? MIN_LINE : LOAD_LINE;
    bool due = p->reported - p->drawn >= wait && (p->terminal || report->done);
    if (due || (ended(report) && !done_before)) draw(p);
    pthread_mutex_unlock(&p->lock);
    return true;
}

void cli_progress_log(cli_progress *p, tsr_log_level level, const char *line) {
    static const char *const prefixes[] = {"error: ", "warning: ", "", ""};
    pthread_mutex_lock(&p->lock);
    end_bar(p);
    p->told |= level == TSR_LOG_ERROR;
    fprintf(stderr, "tessera: %s%s\n", prefixes[level], line);
    pthread_mutex_unlock(&p->lock);
}

void cli_progress_say(cli_progress *p, const char *line) { cli_progress_log(p, TSR_LOG_INFO, line); }

static void beat(cli_progress *p) {
    double silent = seconds() - p->drawn;
    if (caught && !p->told) {
        end_bar(p);
        fputs("tessera: cancelling when this step ends; a second signal ends at once\n", stderr);
        p->told = true;
    } else if (p->reported == 0 && silent >= SILENCE) {
        fputs("tessera: preparing\n", stderr);
        p->drawn = seconds();
    } else if (p->reported != 0 && (p->bar ? silent >= 1.0 : silent >= SILENCE)) {
        draw(p);
    }
}

static void *live(void *user) {
    cli_progress *p = user;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 1;
        pthread_cond_timedwait(&p->wake, &p->lock, &until);
        if (!p->stop) beat(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

cli_progress *cli_progress_start(bool shown) {
    cli_progress *p = cli_alloc(1, sizeof *p);
    p->shown = shown;
    p->terminal = isatty(STDERR_FILENO);
    p->drawn = seconds();
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, &clock);
    pthread_condattr_destroy(&clock);
    p->beating = shown && pthread_create(&p->heart, NULL, live, p) == 0; /* without it, reports alone must do */
    return p;
}

void cli_progress_stop(cli_progress *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    end_bar(p);
    p->stop = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    if (p->beating) pthread_join(p->heart, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
