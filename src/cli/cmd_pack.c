// SPDX-License-Identifier: Apache-2.0
// gpuhours pack: writes a dataset as rows of token ids, ready for the engine.
//
// Two passes: the tokens of all examples are written to a file in order (cli/dataset/spool); then
// rows are packed by length and gathered from that file, a block of a million examples at a time:
// memory is bounded whatever the size of the data. The folder is renamed into place when it is
// complete. With --units the tokens are in the results of work units instead, which other processes
// may have made: the data is not read again.

#include "cli/command.h"
#include "cli/data.h"
#include "cli/dataset/spool.h"
#include "cli/dataset/units.h"
#include "cli/terminal/print.h"
#include "core/data/counting.h"
#include "host/file.h"
#include "host/folder.h"
#include "host/npy.h"
#include "host/staging.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct request {
    const char *out;
} request;

static struct dataset_options data;
static struct profile_settings settings;
static struct units_options work;
static struct shard shard; // of the units

static const struct field output_fields[] = {
    FIELD(request, out, TEXT, "folder to write; must not exist", .value = "DIR",
          .fallback = "required"),
    { 0 },
};

static const struct options *list_options(struct arena *arena)
{
    static struct profile_settings defaults;
    static const struct options groups[] = {
        OPTIONS("reading the data", dataset_fields, &data),
        OPTIONS("rows", profile_settings_fields, &settings, .defaults = &defaults),
        OPTIONS("work units", units_fields, &work),
        OPTIONS("output", output_fields, &request),
        { 0 },
    };
    (void)arena;
    request = (struct request){ 0 };
    data = (struct dataset_options){ 0 };
    work = (struct units_options){ .unit_size = UNITS_BYTES, .wants_ids = true };
    settings = (struct profile_settings){ .stack = "native", .batching = BATCHING_PACKED };
    defaults = profile_settings_complete(&settings);
    return groups;
}

struct job {
    struct arena *arena;
    struct dataset dataset;
    struct units units;
    struct staging staging; // of the folder to write
    struct spool spool;
    struct packing_rule rule;
    struct packing_setup setup;
    struct profile seen; // of the data, for its warnings
    int64_t bad_rows, row_count, tokens, labelled, documents;
    struct batches sums; // of all blocks
    struct npy ids, labels, rows, starts;
};

static const char *path_in(struct job *job, const char *name)
{
    return text_format(job->arena, "%s/%s", job->staging.temporary, name);
}

// --- first pass: tokens ------------------------------------------------------

static enum err add(void *context, const struct example *example)
{
    struct job *job = context;
    job->bad_rows += example->problem != NULL;
    if (example->problem)
        return OK;
    counting_note_parts(&job->seen, job->arena, example);
    return spool_add(&job->spool, example);
}

// The tokens that the units have.
static enum err add_units(struct job *job)
{
    struct dataset_reading counted = { .context = job, .give = add };
    TRY(units_read(&job->units, &counted));
    dataset_describe(&job->seen, job->arena, &counted);
    for (size_t i = 0; i < job->units.manifest.count; i++) {
        int64_t count;
        TRY(units_check_tokens(&count, &job->units, i));
        spool_add_part(&job->spool, job->units.folder, job->units.keys[i], count);
    }
    return OK;
}

static enum err tokenise(struct job *job, struct command_line *line)
{
    TRY(spool_create(&job->spool, job->arena, job->staging.temporary));
    if (work.units)
        return add_units(job);
    struct dataset_reading reading = {
        .context = job, .give = add, .wants_ids = true, .quiet = line->common.quiet
    };
    TRY(dataset_read(&job->dataset, line->positional, (size_t)line->positional_count, &reading));
    dataset_describe(&job->seen, job->arena, &reading);
    return OK;
}

// --- second pass: rows -------------------------------------------------------

// A block of examples, packed.
struct gather {
    struct spool_block block;
    struct packing packing;
};

static enum err put(struct job *job, struct gather *from, int64_t start, int64_t size)
{
    struct spool_view view = spool_look(&from->block, start, size);
    for (int64_t i = 0; i < size; i++)
        job->labelled += view.learned[i];
    job->tokens += size;
    TRY(npy_append(&job->ids, view.ids, (size_t)size));
    return npy_append(&job->labels, view.learned, (size_t)size);
}

// LLaMA-Factory truncates the prompt and the answer; all others truncate the end.
static enum err put_piece(struct job *job, struct gather *from, const struct packing_piece *piece)
{
    struct length length = from->block.lengths.items[piece->example];
    int64_t start = from->block.starts[piece->example] + piece->start;
    bool shared = job->rule.excess == PACKING_CUT_SHARE && piece->size < length.tokens;
    if (!shared)
        return put(job, from, start, piece->size);
    TRY(put(job, from, start, piece->size - piece->labelled));
    return put(job, from, start + length.tokens - length.labelled, piece->labelled);
}

static enum err put_rows(struct job *job, struct gather *from)
{
    const struct packing *packing = &from->packing;
    for (size_t row = 0; row < packing->rows; row++) {
        TRY(npy_append(&job->rows, &job->tokens, 1));
        for (size_t i = packing->starts[row]; i < packing->starts[row + 1]; i++) {
            if (i == packing->starts[row] || !job->rule.attends_across) {
                TRY(npy_append(&job->starts, &job->tokens, 1));
                job->documents++;
            }
            TRY(put_piece(job, from, &packing->pieces[i]));
        }
    }
    return OK;
}

static void add_sums(struct job *job, const struct packing *packing)
{
    struct batches *sums = &job->sums;
    const struct batches *more = &packing->sums;
    sums->rows += (int64_t)packing->rows;
    sums->cut_examples += more->cut_examples;
    sums->dropped_examples += more->dropped_examples;
    sums->lost_tokens += more->lost_tokens;
    if (packing->rows) // the mean so far
        sums->fill += (more->fill - sums->fill) * (double)packing->rows / (double)sums->rows;
}

static enum err pack_block(struct job *job, size_t index)
{
    struct gather from = { 0 };
    enum err err = spool_open_block(&from.block, &job->spool, index);
    if (!err)
        err = packing_plan(&from.packing, &from.block.arena, &from.block.lengths, &job->rule,
                           &job->setup);
    if (!err)
        err = put_rows(job, &from);
    if (!err)
        add_sums(job, &from.packing);
    spool_close_block(&from.block);
    return err;
}

static enum err create_all(struct job *job)
{
    TRY(npy_create(&job->ids, path_in(job, "ids.npy"), NPY_INT32));
    TRY(npy_create(&job->labels, path_in(job, "labels.npy"), NPY_UINT8));
    TRY(npy_create(&job->rows, path_in(job, "rows.npy"), NPY_INT64));
    return npy_create(&job->starts, path_in(job, "documents.npy"), NPY_INT64);
}

static enum err finish_all(struct job *job)
{
    TRY(npy_append(&job->rows, &job->tokens, 1));
    TRY(npy_append(&job->starts, &job->tokens, 1));
    TRY(npy_finish(&job->ids));
    TRY(npy_finish(&job->labels));
    TRY(npy_finish(&job->rows));
    return npy_finish(&job->starts);
}

static void release_all(struct job *job)
{
    npy_release(&job->ids);
    npy_release(&job->labels);
    npy_release(&job->rows);
    npy_release(&job->starts);
    spool_release(&job->spool);
}

static enum err pack_blocks(struct job *job)
{
    TRY(create_all(job));
    for (size_t i = 0; i < job->spool.blocks; i++)
        TRY(pack_block(job, i));
    job->row_count = job->sums.rows;
    job->seen.labels = chat_label_names[data.labels];
    job->seen.tokens = job->tokens;
    job->seen.labelled_tokens = job->labelled;
    packing_scale(&job->sums, 1, &job->rule, &job->setup); // the steps of all rows
    return finish_all(job);
}

// --- the index ---------------------------------------------------------------

static enum err write_index(struct job *job, struct out *document)
{
    struct json_writer w = { .out = document };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "packed");
    json_put_count(&w, "version", 1);
    json_put_count(&w, "rows", job->row_count);
    json_put_count(&w, "documents", job->documents);
    json_put_count(&w, "tokens", job->tokens);
    json_put_count(&w, "labelled_tokens", job->labelled);
    json_put_count(&w, "examples", (int64_t)job->spool.count);
    json_put_count(&w, "bad_rows", job->bad_rows);
    json_put_count(&w, "cut_examples", job->sums.cut_examples);
    json_put_count(&w, "dropped_examples", job->sums.dropped_examples);
    json_put_count(&w, "lost_tokens", job->sums.lost_tokens);
    field_write(profile_settings_fields, &settings, &w);
    json_put_count(&w, "steps", job->sums.steps);
    json_put_number(&w, "fill", job->sums.fill);
    json_put_count(&w, "vocabulary", tokenizer_size(job->dataset.rule.tokenizer));
    json_open(&w, "tokenizer", '{');
    json_put_string(&w, "name", job->dataset.rule.tokenizer_name);
    json_put_bool(&w, "exact", job->dataset.rule.exact);
    json_close(&w, '}');
    json_put_string(&w, "template", job->dataset.rule.template_name);
    json_put_string(&w, "labels", chat_label_names[data.labels]);
    json_open(&w, "files", '{');
    json_put_string(&w, "ids", "ids.npy");
    json_put_string(&w, "labels", "labels.npy");
    json_put_string(&w, "rows", "rows.npy");
    json_put_string(&w, "documents", "documents.npy");
    json_close(&w, '}');
    profile_write_warnings(&job->seen, &w);
    json_close(&w, '}');
    out_char(document, '\n');
    return file_write(path_in(job, "index.json"), out_view(document));
}

static void print_result(struct job *job)
{
    struct arena *arena = job->arena;
    const struct batches *sums = &job->sums;
    print_put("  rows        %s of up to %s tokens, %s full\n", text_commas(arena, job->row_count),
              text_commas(arena, settings.context), text_share(arena, sums->fill));
    print_put("  tokens      %s in %s document%s, %s of them labelled\n",
              text_commas(arena, job->tokens), text_commas(arena, job->documents),
              text_plural((double)job->documents),
              text_share(arena, (double)job->labelled / (double)(job->tokens ? job->tokens : 1)));
    if (sums->cut_examples + sums->dropped_examples + job->bad_rows)
        print_put("  lost        %s truncated, %s dropped, %s unusable row%s: %s token%s\n",
                  text_commas(arena, sums->cut_examples),
                  text_commas(arena, sums->dropped_examples), text_commas(arena, job->bad_rows),
                  text_plural((double)job->bad_rows), text_commas(arena, sums->lost_tokens),
                  text_plural((double)sums->lost_tokens));
    print_put("  written     %s: ids.npy (int32), labels.npy (uint8), rows.npy and\n"
              "              documents.npy (int64: first token of each), index.json\n",
              request.out);
}

// --- the command -------------------------------------------------------------

// If --context is not given, the row length is the one that profile recommends for the data.
static enum err choose_context(struct job *job)
{
    struct profile profile = { .tally = job->spool.tally };
    struct spool_block all = { 0 };
    enum err err = OK;
    bool is_ordered = job->spool.blocks == 1;
    if (is_ordered)
        err = spool_open_block(&all, &job->spool, 0);
    if (!err)
        err = profile_finish(&profile, job->arena, is_ordered ? &all.lengths : NULL, &settings);
    settings.context = profile.settings.context;
    spool_close_block(&all);
    return err;
}

static enum err choose_rows(struct job *job)
{
    const struct packing_trainer *trainer;
    TRY(packing_trainer_find(&trainer, settings.trainer, settings.packer));
    job->rule = packing_rule(trainer, (enum batching)settings.batching);
    TRY(spool_draw(&job->spool, job->rule.shuffles_examples || job->rule.shuffles_rows,
                   (uint64_t)settings.seed));
    if (!settings.context)
        TRY(choose_context(job));
    settings = profile_settings_complete(&settings);
    job->setup = (struct packing_setup){ .window = settings.context,
                                         .micro_batch = settings.micro_batch,
                                         .accumulation = settings.accumulation,
                                         .ranks = settings.ranks,
                                         .seed = (uint64_t)settings.seed };
    return OK;
}

static enum err make(struct job *job, struct command_line *line, struct out *document)
{
    TRY(tokenise(job, line));
    TRY(choose_rows(job));
    TRY(pack_blocks(job));
    if (!job->row_count)
        return fail(ERR_INPUT, "%s: no usable row in the data", line->positional[0]);
    TRY(write_index(job, document));
    return staging_commit(&job->staging);
}

// Tokenizes the units of this process's share that are missing.
static enum err count_units(struct job *job, struct command_line *line)
{
    struct units_work done = { .quiet = line->common.quiet,
                               .lines = line->common.json && shard.is_part };
    TRY(units_open(&job->units, &job->dataset, line->positional, (size_t)line->positional_count,
                   &work, &settings, command_version));
    TRY(units_work(&job->units, &job->dataset, &shard, &done));
    if (shard.is_part && !line->common.json)
        print_put("  units       %zu of this share: %zu tokenized now, %zu were there; %zu of %zu "
                  "are in %s\n              when all are, the same command with --shard all packs "
                  "them\n",
                  done.mine, done.counted, done.done - done.counted, units_present(&job->units),
                  job->units.manifest.count, job->units.folder);
    return OK;
}

static enum err run(struct command_line *line)
{
    for (int i = 0; i < line->count && strcmp(line->words[i], "--"); i++)
        if (!strcmp(line->words[i], "-o"))
            line->words[i] = "--out";
    TRY(command_read(line, list_options(line->arena)));
    if (!line->positional_count)
        return fail(ERR_USAGE, "pack needs data: files, folders or - for standard input");
    TRY(units_share(&shard, &work));
    if (!request.out && !shard.is_part)
        return fail(ERR_USAGE, "pack needs --out: the folder to write");
    if (request.out && !access(request.out, F_OK))
        return fail(ERR_USAGE, "%s: exists; remove it or give another --out", request.out);
    TRY(request.out ? folder_try(request.out) : OK);
    const struct packing_trainer *trainer;
    settings.stack = settings.stack ? settings.stack : "native";
    TRY(data_trainer(&settings.trainer, line, settings.stack));
    TRY(packing_trainer_find(&trainer, settings.trainer, settings.packer));
    struct job job = { .arena = line->arena };
    data.trainer = settings.trainer;
    TRY(dataset_open(&job.dataset, line->arena, &data));
    if (!job.dataset.rule.exact)
        return fail(ERR_USAGE, "pack writes token ids and needs the model's own tokenizer: give "
                               "--tokenizer, or --model with its folder");
    if (work.units)
        TRY(count_units(&job, line));
    if (shard.is_part)
        return OK;
    TRY(staging_open(&job.staging, line->arena, request.out));
    chmod(job.staging.temporary, 0700); // tokens are text
    struct out document = { .arena = line->arena };
    enum err err = make(&job, line, &document);
    release_all(&job);
    staging_release(&job.staging);
    TRY(err);
    dataset_print_warnings(&job.seen, job.arena, true); // with --json and --quiet too
    if (line->common.json)
        print_data(out_view(&document));
    else
        print_result(&job);
    return OK;
}

static const char *const first[] = { "model",  "tokenizer", "template", "context", "out",
                                     "labels", "format",    "bad_rows", NULL };

static const struct command_example examples[] = {
    { "rows of up to 512 tokens",
      "gpuhours pack train.jsonl --model ./model --context 512 --out packed" },
    { "tokenized in units by several processes; then the same command with --shard all packs",
      "gpuhours pack train.jsonl --model ./model --context 512 --units tokens --shard 1/1" },
    { 0 },
};

const struct command command_pack = {
    .name = "pack",
    .summary = "write the data as packed rows of token ids",
    .usage = "DATA... --model MODEL --out DIR [OPTION...]",
    .about =
        "Tokenizes the data with the model's own tokenizer and chat template, packs the examples "
        "into rows of the context window, and writes ids, labels and row starts as .npy files "
        "with an index.json.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
