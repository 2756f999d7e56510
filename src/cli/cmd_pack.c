// SPDX-License-Identifier: Apache-2.0
// gpuhours pack: writes a dataset as rows of token ids, ready for the engine.
//
// Two passes: the tokens of all examples are written to a file in order, then rows are packed by
// length and gathered from that file. Memory is a few bytes per example. The folder is renamed into
// place when it is complete. With --units the tokens are in the results of work units instead,
// which other processes may have made: the data is not read again.

#include "cli/command.h"
#include "cli/data.h"
#include "cli/dataset/units.h"
#include "cli/terminal/print.h"
#include "host/file.h"
#include "host/npy.h"

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
    struct lengths lengths;
    const char *folder; // temporary name
    struct npy ids, labels;
    int64_t bad_rows;
    struct packing packing;
    struct packing_rule rule;
    int64_t tokens, labelled, documents;
    struct units units;
};

static const char *path_in(struct job *job, const char *name)
{
    return text_format(job->arena, "%s/%s", job->folder, name);
}

// --- first pass: tokens ------------------------------------------------------

static enum err add(void *context, const struct example *example)
{
    struct job *job = context;
    if (example->problem) {
        job->bad_rows++;
        return OK;
    }
    lengths_add(&job->lengths, example->tokens, example->labelled);
    if (work.units)
        return OK; // the results of the units have the tokens
    TRY(npy_append(&job->ids, example->ids, (size_t)example->tokens));
    return npy_append(&job->labels, example->learned, (size_t)example->tokens);
}

static enum err tokenise(struct job *job, struct command_line *line)
{
    struct dataset_reading counted = { .context = job, .give = add };
    if (work.units)
        return units_read(&job->units, &counted);
    TRY(npy_create(&job->ids, path_in(job, "examples.ids"), NPY_INT32));
    TRY(npy_create(&job->labels, path_in(job, "examples.labels"), NPY_UINT8));
    struct dataset_reading reading = {
        .context = job, .give = add, .wants_ids = true, .quiet = line->common.quiet
    };
    TRY(dataset_read(&job->dataset, line->positional, (size_t)line->positional_count, &reading));
    TRY(npy_finish(&job->ids));
    return npy_finish(&job->labels);
}

// --- second pass: rows -------------------------------------------------------

// Tokens of examples in order: of a unit, or of all.
struct part {
    const int32_t *ids;
    const uint8_t *labels;
    int64_t start, end; // among the tokens of all examples
    struct units_tokens of_unit;
};

struct gather {
    struct part *parts;
    size_t count;
    int64_t *starts; // of each example among all tokens
    struct npy out_ids, out_labels, rows, documents;
};

// The part that has a token. An example lies in one part as a whole.
static const struct part *part_of(const struct gather *from, int64_t token)
{
    size_t low = 0, high = from->count - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (token < from->parts[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    return &from->parts[low];
}

static enum err put(struct job *job, struct gather *from, int64_t start, int64_t size)
{
    const struct part *part = part_of(from, start);
    start -= part->start;
    for (int64_t i = 0; i < size; i++)
        job->labelled += part->labels[start + i];
    job->tokens += size;
    TRY(npy_append(&from->out_ids, part->ids + start, (size_t)size));
    return npy_append(&from->out_labels, part->labels + start, (size_t)size);
}

// LLaMA-Factory truncates the prompt and the answer; all others truncate the end.
static enum err put_piece(struct job *job, struct gather *from, const struct packing_piece *piece)
{
    struct length length = job->lengths.items[piece->example];
    int64_t start = from->starts[piece->example] + piece->start;
    bool shared = job->rule.excess == PACKING_CUT_SHARE && piece->size < length.tokens;
    if (!shared)
        return put(job, from, start, piece->size);
    TRY(put(job, from, start, piece->size - piece->labelled));
    return put(job, from, start + length.tokens - length.labelled, piece->labelled);
}

static enum err put_rows(struct job *job, struct gather *from)
{
    const struct packing *packing = &job->packing;
    for (size_t row = 0; row < packing->rows; row++) {
        TRY(npy_append(&from->rows, &job->tokens, 1));
        for (size_t i = packing->starts[row]; i < packing->starts[row + 1]; i++) {
            if (i == packing->starts[row] || !job->rule.attends_across) {
                TRY(npy_append(&from->documents, &job->tokens, 1));
                job->documents++;
            }
            TRY(put_piece(job, from, &packing->pieces[i]));
        }
    }
    TRY(npy_append(&from->rows, &job->tokens, 1));
    return npy_append(&from->documents, &job->tokens, 1);
}

static enum err create_all(struct job *job, struct gather *from)
{
    TRY(npy_create(&from->out_ids, path_in(job, "ids.npy"), NPY_INT32));
    TRY(npy_create(&from->out_labels, path_in(job, "labels.npy"), NPY_UINT8));
    TRY(npy_create(&from->rows, path_in(job, "rows.npy"), NPY_INT64));
    return npy_create(&from->documents, path_in(job, "documents.npy"), NPY_INT64);
}

static enum err finish_all(struct gather *from)
{
    TRY(npy_finish(&from->out_ids));
    TRY(npy_finish(&from->out_labels));
    TRY(npy_finish(&from->rows));
    return npy_finish(&from->documents);
}

static enum err open_parts(struct job *job, struct gather *from)
{
    int64_t at = 0;
    from->parts = ARENA_NEW(job->arena, struct part, job->units.manifest.count);
    for (size_t i = 0; i < job->units.manifest.count; i++) {
        struct part *part = &from->parts[from->count++];
        *part = (struct part){ .start = at };
        TRY(units_open_tokens(&part->of_unit, &job->units, i));
        part->ids = part->of_unit.ids;
        part->labels = part->of_unit.learned;
        at = part->end = at + part->of_unit.count;
    }
    if (at != from->starts[job->lengths.count])
        return fail(ERR_INPUT,
                    "%s: the tokens are not those of the counted examples; remove the "
                    "folder and count again",
                    job->units.folder);
    return OK;
}

static enum err put_all(struct job *job, struct gather *from)
{
    enum err err = create_all(job, from);
    if (!err)
        err = put_rows(job, from);
    if (!err)
        err = finish_all(from);
    npy_release(&from->out_ids);
    npy_release(&from->out_labels);
    npy_release(&from->rows);
    npy_release(&from->documents);
    return err;
}

static enum err gather_units(struct job *job, struct gather *from)
{
    enum err err = open_parts(job, from);
    if (!err)
        err = put_all(job, from);
    for (size_t i = 0; i < from->count; i++)
        units_close_tokens(&from->parts[i].of_unit);
    return err;
}

static enum err gather_own(struct job *job, struct gather *from)
{
    struct file ids, labels = { 0 };
    int64_t count;
    struct part all = { .end = from->starts[job->lengths.count] };
    from->parts = &all;
    from->count = 1;
    TRY(file_open(&ids, job->ids.path));
    enum err err = file_open(&labels, job->labels.path);
    if (!err)
        err = npy_read((const void **)&all.ids, &count, ids.text, NPY_INT32, job->ids.path);
    if (!err)
        err =
            npy_read((const void **)&all.labels, &count, labels.text, NPY_UINT8, job->labels.path);
    if (!err)
        err = put_all(job, from);
    file_close(&ids);
    file_close(&labels);
    return err;
}

static enum err gather(struct job *job)
{
    struct gather from = { .starts = ARENA_NEW(job->arena, int64_t, job->lengths.count + 1) };
    from.starts[0] = 0;
    for (size_t i = 0; i < job->lengths.count; i++)
        from.starts[i + 1] = from.starts[i] + job->lengths.items[i].tokens;
    return work.units ? gather_units(job, &from) : gather_own(job, &from);
}

// --- the index ---------------------------------------------------------------

static enum err write_index(struct job *job, struct out *document)
{
    struct json_writer w = { .out = document };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "packed");
    json_put_count(&w, "version", 1);
    json_put_count(&w, "rows", (int64_t)job->packing.rows);
    json_put_count(&w, "documents", job->documents);
    json_put_count(&w, "tokens", job->tokens);
    json_put_count(&w, "labelled_tokens", job->labelled);
    json_put_count(&w, "examples", (int64_t)job->lengths.count);
    json_put_count(&w, "bad_rows", job->bad_rows);
    field_write(profile_settings_fields, &settings, &w);
    json_put_count(&w, "steps", job->packing.sums.steps);
    json_put_number(&w, "fill", job->packing.sums.fill);
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
    json_close(&w, '}');
    out_char(document, '\n');
    return file_write(path_in(job, "index.json"), out_view(document));
}

static void print_result(struct job *job)
{
    struct arena *arena = job->arena;
    const struct batches *sums = &job->packing.sums;
    print_put("  rows        %s of up to %s tokens, %s full\n",
              text_commas(arena, (int64_t)job->packing.rows), text_commas(arena, settings.context),
              text_share(arena, sums->fill));
    print_put("  tokens      %s in %s documents, %s of them labelled\n",
              text_commas(arena, job->tokens), text_commas(arena, job->documents),
              text_share(arena, (double)job->labelled / (double)(job->tokens ? job->tokens : 1)));
    if (sums->cut_examples + sums->dropped_examples + job->bad_rows)
        print_put("  lost        %s truncated, %s dropped, %s unusable rows: %s tokens\n",
                  text_commas(arena, sums->cut_examples),
                  text_commas(arena, sums->dropped_examples), text_commas(arena, job->bad_rows),
                  text_commas(arena, sums->lost_tokens));
    print_put("  written     %s: ids.npy (int32), labels.npy (uint8), rows.npy and\n"
              "              documents.npy (int64: first token of each), index.json\n",
              request.out);
}

// --- the command -------------------------------------------------------------

// If --context is not given, the row length is the one that profile recommends for the data.
static enum err choose_rows(struct job *job)
{
    struct profile profile = { 0 };
    TRY(profile_finish(&profile, job->arena, &job->lengths, &settings));
    settings = profile.settings;
    const struct packing_trainer *trainer;
    TRY(packing_trainer_find(&trainer, settings.trainer, settings.packer));
    job->rule = packing_rule(trainer, (enum batching)settings.batching);
    struct packing_setup setup = { .window = settings.context,
                                   .micro_batch = settings.micro_batch,
                                   .accumulation = settings.accumulation,
                                   .ranks = settings.ranks,
                                   .seed = (uint64_t)settings.seed };
    return packing_plan(&job->packing, job->arena, &job->lengths, &job->rule, &setup);
}

static enum err make(struct job *job, struct command_line *line, struct out *document)
{
    TRY(tokenise(job, line));
    TRY(choose_rows(job));
    if (!job->packing.rows)
        return fail(ERR_INPUT, "%s: no usable row in the data", line->positional[0]);
    TRY(gather(job));
    TRY(write_index(job, document));
    if (!work.units) {
        remove(job->ids.path);
        remove(job->labels.path);
    }
    if (rename(job->folder, request.out))
        return fail(ERR_INPUT, "%s: cannot be created: %s", request.out, strerror(errno));
    return OK;
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

static void remove_folder(struct job *job)
{
    static const char *const names[] = { "examples.ids", "examples.labels", "ids.npy",
                                         "labels.npy",   "rows.npy",        "documents.npy",
                                         "index.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(path_in(job, names[i]));
    rmdir(job->folder);
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
    const struct packing_trainer *trainer;
    settings.stack = settings.stack ? settings.stack : "native";
    TRY(data_trainer(&settings.trainer, line, settings.stack));
    TRY(packing_trainer_find(&trainer, settings.trainer, settings.packer));
    struct job job = { .arena = line->arena, .lengths = { .arena = line->arena } };
    data.trainer = settings.trainer;
    TRY(dataset_open(&job.dataset, line->arena, &data));
    if (!job.dataset.rule.exact)
        return fail(ERR_USAGE, "pack writes token ids and needs the model's own tokenizer: give "
                               "--tokenizer, or --model with its folder");
    if (work.units)
        TRY(count_units(&job, line));
    if (shard.is_part)
        return OK;
    job.folder = text_format(line->arena, "%s.partial.%ld", request.out, (long)getpid());
    if (mkdir(job.folder, 0700)) // tokens are text
        return fail(ERR_INPUT, "%s: cannot be created: %s", job.folder, strerror(errno));
    struct out document = { .arena = line->arena };
    enum err err = make(&job, line, &document);
    npy_release(&job.ids);
    npy_release(&job.labels);
    if (err) {
        remove_folder(&job);
        return err;
    }
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
