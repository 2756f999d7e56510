// child: runs a command as on a terminal, hands its output on, and leaves no process behind.
//
//     struct child child;
//     TRY(child_start(&child, &(struct child_settings){ .command = words, .out = 1, .err = 2,
//                                                       .output = on_output, .context = job }));
//     while (child_poll(&child, 0.1))
//         if (measured(job))
//             child_stop(&child);
//     child_end(&child);                       // now child.code and child.signal tell how it went
//
// The command gets a session of its own and pseudo-terminals for standard output and error (one, if
// ours are the same file), so that progress bars and buffering are as a person would have them;
// standard input is ours. What it writes is given to output() with the time it was read and then
// passed on, byte for byte; stream is 0, or 1 for an error output that is apart. A reader that
// takes nothing for a second does not hold the command up: what it misses is left out, and said.
// Memory is bounded.
//
// Stopping is SIGINT, a grace, SIGTERM, a grace, SIGKILL. SIGINT goes to the process group, as from
// a keyboard, the others to every descendant, also to those that left the group or the session and
// whose parents are gone: a small process in between, the warden, adopts them. Descendants that
// outlive the command are stopped too; should this process be killed, the warden stops all of them.
// Signals that this process gets are handed on; see enum child_manner.
//
// One child at a time: signal handlers belong to the process.

#pragma once

#include "base/text.h"

enum { CHILD_NOT_EXECUTABLE = 126, CHILD_NOT_FOUND = 127, CHILD_PATIENCE = 3 };

// What SIGINT, SIGTERM and SIGHUP to this process do.
enum child_manner {
    CHILD_STOPS,    // the first begins to stop the command
    CHILD_FORWARDS, // handed on as they are; the third begins to stop it
};

struct child_settings {
    char *const *command; // ended by NULL
    int out, err;         // where its output goes
    enum child_manner manner;
    double grace_seconds; // 0: 10
    int rows_kept;        // of our terminal, that the command shall not use
    void *context;
    void (*output)(void *context, int stream, struct text bytes, double seconds);
};

enum child_stage { CHILD_RUNS, CHILD_LINGERS, CHILD_INT, CHILD_TERM, CHILD_KILL, CHILD_GONE };

struct child {
    struct child_settings settings;
    int pid; // also of its group
    enum child_stage stage;
    bool ended;      // the command itself; descendants may go on
    int code;        // as a shell has it: 128 + signal where one ended it
    int signal;      // that ended it; 0: it exited
    bool stopped;    // child_stop() or a signal to us began it
    int interrupted; // the last signal to us that was handed on; 0: none
    int interrupts;
    enum child_stage needed;       // the hardest means that were used: CHILD_RUNS, INT, TERM, KILL
    int outlived;                  // descendants that went on when the command had ended
    int immortal;                  // a process that not even SIGKILL ended; 0: none
    double output_seconds;         // when something was last written; at first the start
    int64_t output_bytes;          // in all
    bool line_open;                // its last byte ended no line
    struct child_internal *inside; // descriptors, relays, deadlines
};

// ERR_INPUT or the codes above with a sentence where the command cannot be started.
enum err child_start(struct child *child, const struct child_settings *settings);

// Waits for output or an event, at most so long; false when nothing of the command is left.
bool child_poll(struct child *child, double seconds);

void child_stop(struct child *child); // begins; child_poll() goes on with it
void child_end(struct child *child);  // waits until passed-on output is out; accepts a zeroed one

// Writes to where the command's output goes, in order with it: to out, or to err.
void child_print(struct child *child, bool to_err, struct text bytes);

// The last lines that it wrote, without control codes, at most so many. Not after child_end().
const char *child_last_lines(const struct child *child, struct arena *arena, int count);

// How it ended, as a clause: "ended with code 3", "was killed by signal 9 (Killed)".
const char *child_ending(const struct child *child, struct arena *arena);

bool child_descends(int pid); // whether a process descends from this one; any thread may ask
bool child_window(int *rows, int *columns); // of our terminal; false: there is none
