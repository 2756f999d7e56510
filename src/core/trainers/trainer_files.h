// trainer_files: training steps in the files that trainers write.
//
// Each reader turns what it finds into lines of a trainer_log, so that files and output are judged
// by the same tables and give the same events:
//
//     struct trainer_log log;
//     TRY(trainer_log_init(&log, arena, NULL, on_event, context));
//     TRY(trainer_files_state(&log, text, "trainer_state.json"));
//
// Files of JSON lines (trainer_log.jsonl, metrics.jsonl) and torchtune's log are text that
// trainer_log_feed takes as it is.

#pragma once

#include "core/trainers/trainer_log.h"

// transformers' trainer_state.json: its log_history. It has no times: `seconds` is NAN.
enum err trainer_files_state(struct trainer_log *log, struct text json, const char *name);

// A table with a header line: metrics.csv of Lightning and litgpt. Rows came at `seconds`.
enum err trainer_files_csv(struct trainer_log *log, struct text csv, const char *name,
                           double seconds);

// A TensorBoard event file, from a record's begin on; it may still grow. Says how far it got.
// `seconds` of the events are the file's own, Unix time.
enum err trainer_files_tensorboard(struct trainer_log *log, size_t *used, struct text bytes,
                                   const char *name);
