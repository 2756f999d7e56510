// SPDX-License-Identifier: Apache-2.0
// trainer_files: reads training steps from the files that trainers write.
//
// Each reader turns its file into lines for a trainer_log, so that the same tables recognise files
// and printed output and give the same events:
//
//     struct trainer_log log;
//     TRY(trainer_log_init(&log, arena, NULL, on_event, context));
//     TRY(trainer_files_state(&log, text, "trainer_state.json"));
//
// JSON lines (trainer_log.jsonl, metrics.jsonl) and torchtune's log need no reader: pass them to
// trainer_log_feed.

#pragma once

#include "core/trainers/trainer_log.h"

// transformers' trainer_state.json: its log_history. It has no times: `seconds` is NAN.
enum err trainer_files_state(struct trainer_log *log, struct text json, const char *name);

// A table with a header line: metrics.csv of Lightning and litgpt. `seconds` is when its rows came.
enum err trainer_files_csv(struct trainer_log *log, struct text csv, const char *name,
                           double seconds);

// A TensorBoard event file, from the start of a record; it may still grow. `used` is how many bytes
// were read. `seconds` of the events are the file's own, Unix time.
enum err trainer_files_tensorboard(struct trainer_log *log, size_t *used, struct text bytes,
                                   const char *name);

// Any of these, by its name, or what a trainer printed. The log of a run that is over: whole, and
// timed by itself.
enum err trainer_files_read(struct trainer_log *log, struct text text, const char *path);
bool trainer_files_has_clock(const char *path); // `seconds` of its events are times
