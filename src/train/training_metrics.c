// SPDX-License-Identifier: Apache-2.0
// Appends one JSON object per step to metrics.jsonl, and cuts the file back on resume.

#include "train/training_metrics.h"

#include "host/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct field training_metrics_fields[] = {
    FIELD(training_report, step, COUNT, "step, counted from 1"),
    FIELD(training_report, epoch, NUMBER, "epochs done, with fractions"),
    FIELD(training_report, loss, NUMBER,
          "mean loss over this step's labelled tokens, or pairs; null: none"),
    FIELD(training_report, held_out_loss, NUMBER,
          "mean loss on the held-out examples; null between evaluations"),
    FIELD(training_report, rate, NUMBER, "learning rate"),
    FIELD(training_report, norm, NUMBER,
          "gradient norm before clipping; null without labelled tokens"),
    FIELD(training_report, trained_tokens, COUNT, "labelled tokens of this step"),
    FIELD(training_report, processed_tokens, COUNT, "tokens of this step, with padding"),
    FIELD(training_report, seconds, SECONDS, "duration of this step, in seconds"),
    FIELD(training_report, communication_seconds, SECONDS,
          "in collectives of the ranks, by the first one's clock", .since = "0.6.0"),
    FIELD(training_report, waited_seconds, SECONDS,
          "of these, while computation waited; the rest lay under it", .since = "0.6.0"),
    FIELD(training_report, flops, NUMBER, "floating-point operations executed by one process"),
    { 0 },
};

const struct field training_rewards_fields[] = {
    FIELD(training_report, reward_chosen, NUMBER,
          "DPO: beta times what chosen answers' log-probability gained", .since = "0.8.0"),
    FIELD(training_report, reward_rejected, NUMBER, "DPO: the same of rejected answers",
          .since = "0.8.0"),
    FIELD(training_report, reward_margin, NUMBER, "DPO: the first less the second",
          .since = "0.8.0"),
    FIELD(training_report, reward_accuracy, NUMBER,
          "DPO: share of pairs whose chosen answer has the larger reward", .since = "0.8.0"),
    { 0 },
};

static const char *path_of(struct arena *arena, const char *out)
{
    return text_format(arena, "%s/metrics.jsonl", out);
}

static enum err append(const char *path, struct text line)
{
    FILE *file = fopen(path, "ab");
    if (!file)
        return fail(ERR_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    bool good = fwrite(line.at, 1, line.size, file) == line.size;
    good = !fclose(file) && good;
    return good ? OK : fail(ERR_INPUT, "%s: cannot be written: %s", path, strerror(errno));
}

enum err training_metrics_add(const char *out, const struct training_report *report)
{
    struct arena arena = { 0 };
    struct out line = { .arena = &arena };
    struct json_writer w = { .out = &line, .compact = true };
    json_open(&w, NULL, '{');
    field_write(training_metrics_fields, report, &w);
    if (!isnan(report->reward_margin))
        field_write(training_rewards_fields, report, &w);
    json_close(&w, '}');
    out_char(&line, '\n');
    enum err err = append(path_of(&arena, out), out_view(&line));
    arena_release(&arena);
    return err;
}

enum err training_metrics_cut(const char *out, int64_t step, struct arena *arena)
{
    const char *path = path_of(arena, out);
    if (mkdir(out, 0777) && errno != EEXIST)
        return fail(ERR_INPUT, "%s: cannot be created: %s", out, strerror(errno));
    if (access(path, F_OK))
        return OK;
    struct file file;
    TRY(file_open(&file, path));
    struct out kept = { .arena = arena };
    struct text rest = file.text, line;
    while (text_next(&rest, '\n', &line)) {
        struct json json;
        if (!line.size ||
            json_read(&json, arena, line, path)) // the last line may be cut off by a kill
            continue;
        if (json_get_number(&json, "step", 0) <= (double)step)
            out_put(&kept, "%.*s\n", TEXT_ARGS(line));
    }
    struct text content = kept.size ? out_view(&kept) : TEXT("");
    content = (struct text){ arena_copy(arena, content.at, content.size), content.size };
    file_close(&file);
    return file_write(path, content);
}
