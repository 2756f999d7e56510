// SPDX-License-Identifier: Apache-2.0
// Reads a dataset: blocks of rows go to worker threads, examples come back in order.

#include "cli/dataset/dataset.h"
#include "cli/terminal/print.h"

#include "base/embedded.h"
#include "cli/terminal/progress.h"
#include "host/pool.h"
#include "host/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 1 << 18,      // that a worker gets at a time
    IN_FLIGHT_BYTES = 64 << 20, // of blocks and results; a row of the longest kind is alone
    KEPT_BYTES = 4 << 20,       // that a worker or a block keeps for the next one
    TOKEN_BYTES = 12            // its id and place
};

// --- a block of rows ---------------------------------------------------------

struct worker {
    struct example_worker examples;
    struct arena rows;           // of one row
    struct record_schema schema; // of one block, with the worker's census
    struct census census;        // of the columns of all its rows
    struct arena names;          // of the census
};

// An example while its block waits for the blocks before it. Small: a block of empty lines has
// many.
struct result {
    uint64_t hash;
    const char *problem;
    const uint8_t *learned;
    uint32_t text_bytes, tokens, labelled, doubt;
    const int64_t *later;       // where all of a block are counted, tokens and labelled are this
    uint32_t line;              // counted from the first line of the block
    uint8_t adapted, left_out;  // enum chat_part
    struct vision_load *images; // NULL: none
    bool is_second, is_empty, has_media;
};

struct item {
    struct block block;
    const struct record_schema *schema; // NULL for plain text
    const char *folder;                 // of its images
    struct arena kept;                  // of tokens: reused for later blocks
    struct arena scratch;               // of one block
    struct result *results;             // on the heap: reused for later blocks
    size_t count, room;
    struct tokens tokens; // of all examples, if ids are requested
};

struct run {
    struct dataset *dataset;
    struct dataset_reading *reading;
    struct source source;
    const struct embedded *example; // in place of the source; NULL after it was taken
    struct arena source_arena;      // of take() alone
    const struct record_schema *schema;
    size_t shape_file;         // whose shape is known: index plus one; 0: none yet
    size_t shape_room, listed; // listed: shapes with columns
    struct worker *workers;
    int row_cost;                   // in memory; 1: of a tokenizer that takes a text word by word
    struct progress progress, *bar; // bar: the one that is shown
};

// Marks the tokens that overlap a labelled span.
static int64_t mark_labels(uint8_t *learned, const struct tokens *tokens, size_t first,
                           const struct chat_text *text, bool all)
{
    int64_t labelled = 0;
    size_t span = 0;
    for (size_t i = first; i < tokens->count; i++) {
        uint32_t start = tokens->starts[i], end = tokens->ends[i];
        while (span < text->span_count && text->spans[span].end <= start)
            span++;
        bool inside = span < text->span_count && text->spans[span].start < end && start < end;
        learned[i - first] = all || inside;
        labelled += learned[i - first];
    }
    return labelled;
}

// Tokenizers of SentencePiece's kind take the text of a row as one word and, where ids are wanted,
// keep the place of each of its bytes. Unigram ones keep the best way to each byte, too.
static int row_cost(const struct run *run)
{
    const char *kind = tokenizer_kind(run->dataset->rule.tokenizer);
    if (!strcmp(kind, "Unigram"))
        return run->reading->wants_ids ? 4 : 2;
    return !strcmp(kind, "SentencePiece-style BPE") && run->reading->wants_ids ? 2 : 1;
}

// Where ids are wanted, each byte may be a token.
static size_t row_limit(const struct run *run)
{
    return (size_t)(SOURCE_ROW_LIMIT_BYTES / run->row_cost / (run->reading->wants_ids ? 2 : 1));
}

// Room for the tokens of a long text, in one piece: growing would leave the smaller ones behind.
static void reserve(struct run *run, struct item *item, struct worker *worker,
                    const struct chat_text *text)
{
    struct tokens *tokens = &item->tokens;
    if (text->text.size < KEPT_BYTES)
        return;
    size_t room =
        tokens->count + (size_t)tokenizer_count(run->dataset->rule.tokenizer,
                                                worker->examples.cache, text->text,
                                                text->wants_special_tokens ? TOKENIZER_SPECIAL : 0);
    if (room <= tokens->room)
        return;
    size_t had = tokens->room * sizeof *tokens->ids, bytes = room * sizeof *tokens->ids;
    tokens->ids = arena_grow(tokens->arena, tokens->ids, had, bytes);
    tokens->starts = arena_grow(tokens->arena, tokens->starts, had, bytes);
    tokens->ends = arena_grow(tokens->arena, tokens->ends, had, bytes);
    tokens->room = room;
}

// The memory of a row is that of its normalized text: the limit holds for it too. NFKC writes the
// three bytes of U+FDFA as 33, with three spaces that may become three bytes each.
static enum err check_growth(const struct run *run, struct worker *worker, struct text text)
{
    enum { MOST = 13 };
    size_t limit = row_limit(run);
    struct tokenizer_cache *cache = worker->examples.cache;
    if (text.size <= limit / MOST ||
        tokenizer_normal_bytes(run->dataset->rule.tokenizer, cache, text) <= limit)
        return OK;
    return fail(ERR_INPUT,
                "the row was skipped: normalized by the tokenizer, it is longer than the limit "
                "of %s",
                text_bytes(&worker->rows, (double)limit));
}

// Computes ids only on request; counting is much faster. Images, video and sound have no ids: a row
// that has some would be trained without them.
static enum err tokenise(struct run *run, struct item *item, struct worker *worker,
                         struct result *result, const struct chat_text *text)
{
    struct example example = { 0 };
    if (run->reading->wants_ids && text->has_media)
        return fail(ERR_INPUT, "has images, video or sound, which have no token ids here; use a "
                               "trainer that reads them");
    TRY(check_growth(run, worker, text->text));
    if (run->reading->wants_ids) {
        size_t first = item->tokens.count;
        reserve(run, item, worker, text);
        tokenizer_encode(run->dataset->rule.tokenizer, worker->examples.cache, text->text,
                         text->wants_special_tokens ? TOKENIZER_SPECIAL : 0, &item->tokens);
        example.tokens = (int64_t)(item->tokens.count - first);
        uint8_t *learned = ARENA_NEW(&item->scratch, uint8_t, example.tokens);
        example.labelled =
            mark_labels(learned, &item->tokens, first, text, example_labels_all(text));
        example.hash = example_hash(text->text);
        example.text_bytes = (int64_t)text->text.size;
        example.adapted = text->adapted;
        example.left_out = text->left_out;
        result->learned = learned;
    } else {
        int64_t *tokens = ARENA_NEW(&item->scratch, int64_t, 1);
        if (example_count_later(&worker->examples, &example, text, tokens))
            result->later = tokens;
        TRY(example_images(&worker->examples, &example, text));
    }
    if (example.images.images > 0) {
        result->images = ARENA_NEW(&item->scratch, struct vision_load, 1);
        *result->images = example.images;
    }
    result->tokens = (uint32_t)example.tokens;
    result->labelled = (uint32_t)example.labelled;
    result->hash = example.hash;
    result->adapted = (uint8_t)example.adapted;
    result->left_out = (uint8_t)example.left_out;
    result->has_media = example.has_media;
    result->text_bytes = (uint32_t)example.text_bytes;
    result->doubt = example.doubt < UINT32_MAX ? (uint32_t)example.doubt : UINT32_MAX;
    return OK;
}

static struct result *add_result(struct item *item, int64_t line)
{
    if (item->count == item->room) {
        item->room = item->room ? item->room * 2 : 1024;
        item->results = realloc(item->results, item->room * sizeof *item->results);
        if (!item->results)
            arena_exhausted(item->room * sizeof *item->results);
    }
    struct result *result = &item->results[item->count++];
    *result = (struct result){ .line = (uint32_t)(line - item->block.rows.next_line) };
    return result;
}

static void work_row(struct run *run, struct item *item, struct worker *worker,
                     const struct lines *rows, struct text row)
{
    struct record record;
    const struct example_table table = { item->schema ? &worker->schema : NULL, item->block.names,
                                         item->block.name_count };
    enum err err = example_read(&record, &worker->rows, &table, rows, row);
    for (int i = 0; i < record.count && !err; i++) {
        struct chat_text text;
        err = chat_render(&worker->examples.chat, &text, &record.sequences[i]);
        if (err)
            break;
        struct result *result = add_result(item, rows->line);
        result->is_second = i > 0;
        result->is_empty = example_is_empty(&record.sequences[i]);
        err = tokenise(run, item, worker, result, &text);
        if (err)
            item->count--; // its problem takes its place
    }
    if (err)
        add_result(item, rows->line)->problem = text_copy(&item->scratch, text_of(error_text()));
}

// Of tables only the columns that are needed are read: their first rows know all of them.
static void take_schema(struct worker *worker, const struct item *item)
{
    if (!item->schema)
        return;
    worker->schema = *item->schema;
    worker->census.arena = &worker->names;
    worker->schema.census = item->block.is_table ? NULL : &worker->census;
}

static void finish_counts(struct item *item, struct worker *worker)
{
    example_finish(&worker->examples);
    for (size_t i = 0; i < item->count; i++)
        if (item->results[i].later)
            item->results[i].tokens = item->results[i].labelled = (uint32_t)*item->results[i].later;
}

static void release_worker(struct worker *worker)
{
    example_worker_release(&worker->examples);
    arena_release(&worker->rows);
}

static enum err work(void *context, void *at, int number)
{
    struct run *run = context;
    struct item *item = at;
    struct worker *worker = &run->workers[number];
    item->count = 0;
    item->tokens = (struct tokens){ .arena = &item->kept,
                                    .places = true,
                                    .ids = item->tokens.ids,
                                    .starts = item->tokens.starts,
                                    .ends = item->tokens.ends,
                                    .room = item->tokens.room };
    arena_rewind(&item->scratch, (struct arena_mark){ 0 });
    if (!worker->examples.cache) // created by the thread that uses it
        TRY(example_worker_init(&worker->examples, &run->dataset->rule));
    worker->examples.folder = item->folder;
    take_schema(worker, item);
    struct arena_mark mark = arena_mark(&worker->rows);
    struct lines rows = item->block.rows;
    for (struct text row; lines_next(&rows, &row); arena_rewind(&worker->rows, mark))
        work_row(run, item, worker, &rows, row);
    finish_counts(item, worker);
    if (item->block.problem)
        add_result(item, item->block.rows.next_line)->problem = item->block.problem;
    if (item->block.room > KEPT_BYTES)
        release_worker(worker);
    return OK;
}

// --- blocks in, examples out -------------------------------------------------

// Remembers how the rows of a file are read; copied when all is read.
static void add_shape(struct run *run, size_t file, const struct record_schema *schema)
{
    struct dataset_reading *reading = run->reading;
    reading->shapes = arena_room(&run->source_arena, reading->shapes, sizeof *reading->shapes,
                                 reading->shape_count, &run->shape_room);
    bool listed = schema && run->listed++ < COUNTED_LISTED;
    reading->shapes[reading->shape_count++] =
        (struct counted_shape){ .file = file,
                                .format = schema ? record_format_names[schema->format] : "text",
                                .is_plain = !schema,
                                .columns = listed ? schema->all : NULL,
                                .column_count = listed ? schema->count : 0 };
    run->shape_file = file + 1;
}

static enum err detect(struct run *run, const struct block *block)
{
    struct record_schema *schema = ARENA_NEW(&run->source_arena, struct record_schema, 1);
    const struct dataset_options *options = &run->dataset->options;
    struct text fields = options->fields ? text_of(options->fields) : (struct text){ 0 };
    bool is_csv = options->format == RECORD_CSV;
    enum record_format format = is_csv ? RECORD_AUTO : (enum record_format)options->format;
    const struct example_table table = { NULL, block->names, block->name_count };
    enum err err = example_detect(schema, &run->source_arena, &block->rows, &table, format, fields);
    if (err)
        return error_prefix(err, "%s: ", block->name);
    run->schema = schema;
    return OK;
}

// Lines of text without a name may be a CSV of one column: its header looks like any word. Said
// where that word is one that columns have.
static void note_header(struct run *run, const struct block *block)
{
    const struct dataset_options *options = &run->dataset->options;
    struct lines rows = block->rows;
    struct text first, second;
    if (run->reading->quiet || options->format || strchr(block->name, '.') ||
        !lines_next(&rows, &first) || !lines_next(&rows, &second))
        return;
    struct text name = text_trim(first);
    if (name.size > 2 && name.at[0] == '"' && name.at[name.size - 1] == '"')
        name = (struct text){ name.at + 1, name.size - 2 };
    struct record_schema schema;
    struct text fields = options->fields ? text_of(options->fields) : (struct text){ 0 };
    bool is_column = false;
    if (!record_detect_columns(&schema, &run->source_arena, &name, 1, NULL, 0, RECORD_AUTO, fields))
        for (size_t i = 0; i < RECORD_FIELDS; i++)
            is_column = is_column || (schema.columns[i].at && text_equal(schema.columns[i], name));
    if (is_column)
        print_note("%s is read as lines of text; if its first line, %.*s, is the header of a CSV, "
                   "give --format csv, and if not, --format text",
                   block->name, TEXT_ARGS(name));
}

static bool has_rows(const struct block *block)
{
    struct lines rows = block->rows;
    struct text row;
    return lines_next(&rows, &row);
}

// A range of a file is read as the first rows of the file say, as the whole file would be.
static enum err detect_from_start(struct run *run, const struct block *block)
{
    struct source start;
    struct block first = { 0 };
    bool more = true;
    enum err err = source_open(&start, &run->source_arena, &block->name, 1,
                               &(struct source_options){ .block_bytes = BLOCK_BYTES });
    while (!err && more && !(err = source_next(&start, &first, &more)) && !has_rows(&first))
        ;
    if (!err)
        err = detect(run, more ? &first : block);
    source_block_release(&first);
    source_close(&start);
    return err;
}

static enum err next_block(struct run *run, struct block *block, bool *more)
{
    const struct embedded *example = run->example;
    if (!example)
        return source_next(&run->source, block, more);
    run->example = NULL;
    *block = (struct block){ .name = example->name,
                             .rows = { .cutter = { .format = LINES_JSON },
                                       .at = example->at,
                                       .end = example->at + example->size,
                                       .next_line = 1 },
                             .lines = lines_count((struct text){ example->at, example->size }) };
    return OK;
}

// --image-folder, else that of the data file.
static const char *image_folder(struct run *run, const struct block *block)
{
    const char *given = run->dataset->options.image_folder;
    const char *slash = block->name ? strrchr(block->name, '/') : NULL;
    if (given || !slash)
        return given ? given : ".";
    return text_format(&run->source_arena, "%.*s", (int)(slash - block->name + 1), block->name);
}

// Has only the columns read that the rows need. "answers.text" is in the column answers, if it is
// not a column's name. Every row of a table has all its columns, so the first rows know them.
static enum err keep_columns(struct run *run)
{
    const struct record_schema *schema = run->schema;
    size_t count = 0;
    struct text *names = ARENA_NEW(&run->source_arena, struct text, RECORD_FIELDS + schema->count);
    for (size_t i = 0; i < RECORD_FIELDS; i++)
        if (schema->columns[i].at)
            names[count++] = schema->columns[i];
    for (size_t i = 0; i < schema->count; i++)
        if (record_needs(schema, text_of(schema->all[i].name)))
            names[count++] = text_of(schema->all[i].name);
    return source_keep(&run->source, names, count);
}

static enum err take(void *context, void *at, bool *more)
{
    struct run *run = context;
    struct item *item = at;
    TRY(next_block(run, &item->block, more));
    if (!*more)
        return OK;
    progress_show(run->bar, run->reading->before_bytes + item->block.done_bytes);
    size_t file = item->block.file;
    bool is_plain = item->block.rows.cutter.format == LINES_TEXT;
    item->schema = NULL;
    item->folder = image_folder(run, &item->block);
    if (run->shape_file != file + 1 && (is_plain || has_rows(&item->block))) {
        if (!is_plain)
            TRY(run->reading->to ? detect_from_start(run, &item->block)
                                 : detect(run, &item->block));
        if (!is_plain)
            TRY(keep_columns(run));
        else
            note_header(run, &item->block);
        add_shape(run, file, is_plain ? NULL : run->schema);
    }
    item->schema = is_plain ? NULL : run->schema;
    return OK;
}

static enum err refuse(const struct run *run, const struct example *bad)
{
    int64_t from = run->reading->from;
    int64_t line = bad->line + (from ? source_lines_before(bad->file, from) : 0);
    return fail(ERR_INPUT, "%s:%lld: %s; give --bad-rows skip to count and skip such rows",
                bad->file, (long long)line, bad->problem);
}

static enum err give_examples(struct run *run, const struct item *item)
{
    enum { AHEAD = 16 };
    size_t first = 0;
    for (size_t i = 0; i < item->count; i++) {
        const struct result *result = &item->results[i];
        struct example example = {
            .file = item->block.name,
            .line = item->block.rows.next_line + result->line,
            .tokens = result->tokens,
            .labelled = result->labelled,
            .text_bytes = result->text_bytes,
            .doubt = result->doubt,
            .hash = result->hash,
            .later_hash = i + AHEAD < item->count ? result[AHEAD].hash : 0,
            .problem = result->problem,
            .is_second = result->is_second,
            .is_empty = result->is_empty,
            .adapted = result->adapted,
            .left_out = result->left_out,
            .has_media = result->has_media,
            .images = result->images ? *result->images : (struct vision_load){ 0 },
            .ids = run->reading->wants_ids ? item->tokens.ids + first : NULL,
            .learned = result->learned,
        };
        first += result->tokens;
        if (example.problem && run->dataset->options.bad_rows == DATASET_STOP)
            return refuse(run, &example);
        TRY(run->reading->give(run->reading->context, &example));
    }
    return OK;
}

static void release(struct item *item)
{
    source_block_release(&item->block);
    arena_release(&item->kept);
    arena_release(&item->scratch);
    free(item->results);
    *item = (struct item){ 0 };
}

// What an item keeps for its next block. Long rows and very many short ones leave nothing.
static size_t kept_bytes(const struct item *item)
{
    return item->block.room + item->room * sizeof *item->results + item->tokens.room * TOKEN_BYTES;
}

static enum err give(void *context, void *at)
{
    struct item *item = at;
    TRY(give_examples(context, item));
    if (kept_bytes(item) > KEPT_BYTES)
        release(item);
    return OK;
}

static void drop(void *context, void *at)
{
    (void)context;
    release(at);
}

// Bytes of a block and of what becomes of it.
static int64_t weigh(void *context, const void *at)
{
    const struct run *run = context;
    const struct block *block = &((const struct item *)at)->block;
    size_t size = (size_t)(block->rows.end - block->rows.at);
    size_t tokens = run->reading->wants_ids ? TOKEN_BYTES * size / 4 : 0; // of about 4 bytes
    return (int64_t)((size_t)run->row_cost * size + tokens +
                     (size_t)block->lines * sizeof(struct result));
}

// "example" is the built-in dataset, unless a file has that name.
static const struct embedded *find_example(const char *const *words, size_t count)
{
    const struct embedded *file = embedded_files;
    if (count != 1 || strcmp(words[0], "example") || !access("example", F_OK))
        return NULL;
    while (file->name && strcmp(file->name, "example.jsonl"))
        file++;
    return file->name ? file : NULL;
}

bool dataset_is_example(const char *const *words, size_t count)
{
    return find_example(words, count);
}

void dataset_note_left_out(const struct inputs *inputs)
{
    struct arena scratch = { 0 };
    struct profile left_out = { .left_out_files = (int64_t)inputs->left_out,
                                .left_out_file = inputs->left_out_name };
    dataset_print_warnings(&left_out, &scratch, false);
    arena_release(&scratch);
}

void dataset_print_warnings(const struct profile *profile, struct arena *arena, bool was_read)
{
    struct profile_warning warnings[PROFILE_WARNINGS];
    size_t count = profile_warnings(warnings, profile, arena);
    for (size_t i = 0; i < count; i++)
        if (!was_read || strcmp(warnings[i].code, "splits_left_out"))
            print_note("%s: %s", warnings[i].code, warnings[i].text);
}

static void list_files(struct run *run)
{
    struct dataset_reading *reading = run->reading;
    if (run->example) {
        reading->file_count = 1;
        reading->files = ARENA_NEW(run->dataset->arena, struct profile_file, 1);
        *reading->files = (struct profile_file){ run->example->name, (int64_t)run->example->size };
        return;
    }
    const struct inputs *inputs = &run->source.inputs;
    reading->file_count = inputs->count;
    reading->files = ARENA_NEW(run->dataset->arena, struct profile_file, inputs->count);
    for (size_t i = 0; i < inputs->count; i++) {
        struct profile_file *file = &reading->files[i];
        file->name = text_copy(run->dataset->arena, text_of(inputs->paths[i]));
        file->bytes = inputs->sizes[i] > 0 ? inputs->sizes[i] : 0;
    }
    reading->left_out_files = (int64_t)inputs->left_out;
    if (inputs->left_out)
        reading->left_out_file = text_copy(run->dataset->arena, text_of(inputs->left_out_name));
}

// The size of a pipe is known once it has been read: standard input is named alone.
static void size_pipe(const struct run *run)
{
    const struct inputs *inputs = &run->source.inputs; // none of the built-in example
    if (inputs->count == 1 && inputs->sizes[0] <= 0)
        run->reading->files->bytes = run->source.read_bytes;
}

// Copies the shapes out of the arena of take().
static void keep_shapes(struct dataset_reading *reading, struct arena *arena)
{
    struct counted_shape *kept = ARENA_NEW(arena, struct counted_shape, reading->shape_count);
    for (size_t i = 0; i < reading->shape_count; i++)
        kept[i] = counted_shape_copy(arena, &reading->shapes[i]);
    reading->shapes = kept;
}

static enum lines_format lines_of(const struct dataset *dataset)
{
    return dataset->options.format == RECORD_CSV ? LINES_CSV : LINES_UNKNOWN;
}

enum err dataset_read(struct dataset *dataset, const char *const *words, size_t count,
                      struct dataset_reading *reading)
{
    struct run run = { .dataset = dataset, .reading = reading };
    run.row_cost = row_cost(&run);
    int workers = pool_workers((int)dataset->options.threads);
    run.workers = calloc((size_t)workers, sizeof *run.workers);
    dataset->rule.words = workers > 1 ? tokenizer_words_init() : NULL;
    struct pool_job job = { .context = &run,
                            .item_size = sizeof(struct item),
                            .take = take,
                            .work = work,
                            .give = give,
                            .drop = drop,
                            .weigh = weigh,
                            .most_weight = IN_FLIGHT_BYTES };
    enum err err = run.workers ? OK : fail(ERR_MEMORY, "out of memory");
    run.example = find_example(words, count);
    if (!err)
        err = source_open(&run.source, &run.source_arena, words, run.example ? 0 : count,
                          &(struct source_options){ .format = lines_of(dataset),
                                                    .block_bytes = BLOCK_BYTES,
                                                    .row_limit_bytes = row_limit(&run),
                                                    .from = reading->from,
                                                    .to = reading->to });
    if (!err) {
        list_files(&run);
        if (!dataset->warns_later)
            dataset_note_left_out(&run.source.inputs);
        run.progress = progress_start("reading", run.source.inputs.total_bytes, reading->quiet);
        run.bar = reading->progress ? reading->progress : &run.progress;
        err = pool_run(&job, workers);
        progress_end(&run.progress);
        reading->lines = run.source.line - 1;
        reading->read_bytes = run.source.read_bytes;
        size_pipe(&run);
        source_close(&run.source);
    }
    reading->census = (struct census){ .arena = dataset->arena };
    for (int i = 0; run.workers && i < workers; i++) {
        census_merge(&reading->census, &run.workers[i].census);
        arena_release(&run.workers[i].names);
        release_worker(&run.workers[i]);
    }
    free(run.workers);
    tokenizer_words_release(dataset->rule.words);
    dataset->rule.words = NULL;
    keep_shapes(reading, dataset->arena);
    arena_release(&run.source_arena);
    return err;
}

enum err dataset_check_pairs(const struct dataset_reading *reading)
{
    for (size_t i = 0; i < reading->shape_count; i++)
        if (strcmp(reading->shapes[i].format, record_format_names[RECORD_PREFERENCE]))
            return fail(
                ERR_INPUT,
                "--objective dpo needs a chosen and a rejected answer in each row, but the "
                "rows have the format %s; --fields chosen=NAME,rejected=NAME names the columns",
                reading->shapes[i].format);
    return OK;
}
