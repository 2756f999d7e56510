// SPDX-License-Identifier: Apache-2.0
// child: runs a command as on a terminal, passes its output on, and stops all of its processes.
//
//     struct child child;
//     TRY(child_start(&child, &(struct child_settings){ .command = words, .out = 1, .err = 2,
//                                                       .output = on_output, .context = job }));
//     while (child_poll(&child, 0.1))
//         if (measured(job))
//             child_stop(&child);
//     child_end(&child);                       // child.code and child.signal say how it ended
//
// The command gets a session of its own and pseudo-terminals for standard output and error (one, if
// ours are the same file), so that progress bars and buffering are as on a terminal; standard input
// is ours. What it writes goes to output() with the time it was read and is then passed on, byte
// for byte; stream is 0, or 1 for a separate error output. A slow reader does not block the
// command: 8 MiB wait for it. If they are full and it takes nothing for a second, output is
// dropped, with a notice. child_end() waits for the reader.
//
// Stopping takes three stages: SIGINT, after grace_seconds SIGTERM, after grace_seconds SIGKILL.
//
//     gpuhours ── warden ── command ── worker …      SIGINT: the command's process group
//                    └───── orphan …                 SIGTERM, SIGKILL: all below the warden
//
// The warden, a small process in between, adopts orphans, so that also processes that left the
// group or the session are found. Descendants that outlive the command are stopped too; if this
// process is killed, the warden stops all of them. Signals to this process are forwarded; see enum
// child_manner.
//
// One child at a time: signal handlers belong to the process.

#pragma once

#include "base/text.h"

enum { CHILD_NOT_EXECUTABLE = 126, CHILD_NOT_FOUND = 127, CHILD_PATIENCE = 3 };

// What SIGINT, SIGTERM and SIGHUP to this process do.
enum child_manner {
    CHILD_STOPS,    // the first begins to stop the command
    CHILD_FORWARDS, // forwarded as they are; the third begins to stop it
};

struct child_settings {
    char *const *command; // ended by NULL
    int out, err;         // where its output goes
    enum child_manner manner;
    double grace_seconds;  // before SIGTERM, and again before SIGKILL; 0: 10
    double reader_seconds; // that child_end() waits for a reader that takes nothing; 0: 600
    int rows_kept;         // rows of our terminal that the command does not get
    void *context;
    void (*output)(void *context, int stream, struct text bytes, double seconds);
};

enum child_stage { CHILD_RUNS, CHILD_LINGERS, CHILD_INT, CHILD_TERM, CHILD_KILL, CHILD_GONE };

struct child {
    struct child_settings settings;
    int pid; // also of its group
    enum child_stage stage;
    bool ended;      // the command itself; descendants may go on
    int code;        // as in a shell: 128 + signal if a signal ended it
    int signal;      // the one that ended it; 0: it exited
    bool stopped;    // child_stop() or a signal to us began it
    int interrupted; // the last signal to us that was forwarded; 0: none
    int interrupts;
    enum child_stage needed;       // the hardest stage that was used: CHILD_RUNS, INT, TERM, KILL
    int outlived;                  // descendants that were running after the command had ended
    int immortal;                  // a process that survived SIGKILL; 0: none
    double output_seconds;         // when it last wrote something; initially when it started
    int64_t output_bytes;          // in all
    int64_t unread_bytes;          // after child_end(): output that nobody took
    bool line_open;                // its last byte was not a line end
    struct child_internal *inside; // descriptors, relays, deadlines
};

// ERR_INPUT or one of the codes above if the command cannot be started.
enum err child_start(struct child *child, const struct child_settings *settings);

// Waits at most that long for output or an event; false when no process of the command is left.
bool child_poll(struct child *child, double seconds);

void child_stop(struct child *child); // begins to stop it; child_poll() continues
void child_end(struct child *child);  // waits until all output is passed on; accepts a zeroed one

// Writes to the same place as the command, in order with its output: to out, or to err.
void child_print(struct child *child, bool to_err, struct text bytes);

// The last `count` lines that it wrote, before it was stopped if it was, without control codes. Not
// after child_end().
const char *child_last_lines(const struct child *child, struct arena *arena, int count);

// How it ended, as a clause: "ended with code 3", "was killed by signal 9 (Killed)".
const char *child_ending(const struct child *child, struct arena *arena);

bool child_descends(int pid); // whether it is a descendant of this process; thread-safe
bool child_window(int *rows, int *columns); // of our terminal; false: there is none
