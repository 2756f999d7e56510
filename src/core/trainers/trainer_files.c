// SPDX-License-Identifier: Apache-2.0
// Turns trainer_state.json, CSV tables and TensorBoard events into lines for trainer_log.
//
// Never rewinds the arena: the callback may have allocated from it.

#include "core/trainers/trainer_files.h"

#include "base/csv.h"
#include "base/json.h"
#include "core/trainers/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void feed(struct trainer_log *log, const char *string, double seconds)
{
    trainer_log_feed(log, string, strlen(string), seconds);
}

// Quotes a text, without characters that would end the quotes or the line.
static void feed_quoted(struct trainer_log *log, struct text text, double seconds)
{
    feed(log, "\"", seconds);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.at[i];
        trainer_log_feed(log, c < ' ' || c == '"' || c == '\\' ? "_" : text.at + i, 1, seconds);
    }
    feed(log, "\"", seconds);
}

// --- trainer_state.json ------------------------------------------------------

static void feed_history(struct trainer_log *log, struct json_reader *in)
{
    json_array(in);
    while (json_item(in)) {
        struct text item = json_skip(in);
        for (size_t i = 0; i < item.size; i++) // on one line
            trainer_log_feed(log, strchr("\r\n", item.at[i]) ? " " : item.at + i, 1, NAN);
        feed(log, "\n", NAN);
    }
}

enum err trainer_files_state(struct trainer_log *log, struct text json, const char *name)
{
    struct json state;
    TRY(json_read(&state, log->arena, json, name));
    if (state.kind != JSON_OBJECT || !json_get(&state, "log_history"))
        return fail(ERR_INPUT, "%s: has no log_history; is it a trainer_state.json?", name);
    double total = json_get_number(&state, "max_steps", NAN);
    if (total > 0)
        log->announced = total;
    struct json_reader in = json_reader(json);
    struct text key;
    json_object(&in);
    while (json_key(&in, log->arena, &key))
        if (text_is(key, "log_history") && json_peek(&in) == JSON_ARRAY)
            feed_history(log, &in);
        else
            json_skip(&in);
    return json_end(&in, name);
}

// --- CSV ---------------------------------------------------------------------

enum err trainer_files_csv(struct trainer_log *log, struct text csv, const char *name,
                           double seconds)
{
    while (csv.size && csv.at[csv.size - 1] != '\n') // the last row may be incomplete
        csv.size--;
    struct csv table;
    TRY(csv_read(&table, log->arena, csv, name, ','));
    for (size_t row = 0; row < table.rows; row++) {
        const char *before = "{";
        for (size_t column = 0; column < table.columns; column++) {
            struct text value = csv_cell(&table, row, (int)column);
            if (!value.size)
                continue;
            feed(log, before, seconds);
            feed_quoted(log, table.header[column], seconds);
            feed(log, ": ", seconds);
            feed_quoted(log, value, seconds);
            before = ", ";
        }
        feed(log, "}\n", seconds);
    }
    return OK;
}

// --- TensorBoard -------------------------------------------------------------

static void on_scalar(void *context, const struct tensorboard_scalar *scalar)
{
    struct trainer_log *log = context;
    double seconds = scalar->wall_seconds;
    char numbers[160];
    snprintf(numbers, sizeof numbers, "{\"step\": %lld, \"wall_time\": %.6f, ",
             (long long)scalar->step, seconds);
    feed(log, numbers, seconds);
    feed_quoted(log, scalar->tag, seconds);
    snprintf(numbers, sizeof numbers, ": %.9g}\n", scalar->value);
    feed(log, numbers, seconds);
}

enum err trainer_files_tensorboard(struct trainer_log *log, size_t *used, struct text bytes,
                                   const char *name)
{
    return tensorboard_read(used, bytes, name, on_scalar, log);
}

bool trainer_files_has_clock(const char *path)
{
    return strstr(path, "tfevents");
}

enum err trainer_files_read(struct trainer_log *log, struct text text, const char *path)
{
    size_t used;
    if (text_ends(text_of(path), "trainer_state.json"))
        return trainer_files_state(log, text, path);
    if (text_ends(text_of(path), ".csv"))
        return trainer_files_csv(log, text, path, NAN);
    if (trainer_files_has_clock(path))
        return trainer_files_tensorboard(log, &used, text, path);
    trainer_log_feed(log, text.at, text.size, 0);
    trainer_log_end(log);
    return OK;
}
