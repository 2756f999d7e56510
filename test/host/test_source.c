// SPDX-License-Identifier: Apache-2.0
#include "host/pool.h"
#include "host/source.h"
#include "test/files.h"
#include "test/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// All rows of some files as one string, "name:line:row|"; a problem is "name:line:!".
static const char *spelled(const char *const *words, size_t count, struct source_options options)
{
    struct out out = { .arena = &test_arena };
    struct source source;
    struct block block = { 0 };
    bool more = true;
    enum err err = source_open(&source, &test_arena, words, count, &options);
    while (!err && !(err = source_next(&source, &block, &more)) && more) {
        const char *slash = strrchr(block.name, '/');
        const char *name = slash ? slash + 1 : block.name;
        struct lines rows = block.rows;
        if (block.problem)
            out_put(&out, "%s:%lld:!|", name, (long long)rows.next_line);
        for (struct text row; lines_next(&rows, &row);)
            out_put(&out, "%s:%lld:%.*s|", name, (long long)rows.line, TEXT_ARGS(row));
    }
    if (err)
        out_put(&out, "error %d", err);
    source_block_release(&block);
    source_close(&source);
    return out_string(&out);
}

static const char *spelled_one(const char *path, size_t block_bytes)
{
    return spelled(&path, 1, (struct source_options){ .block_bytes = block_bytes });
}

static bool is(const char *found, const char *wanted)
{
    if (strcmp(found, wanted))
        printf("found  %s\nwanted %s\n", found, wanted);
    return !strcmp(found, wanted);
}

TEST(source_reads_each_format_by_name_and_look)
{
    CHECK(is(spelled_one(files_write("a.jsonl", TEXT("{\"a\":1}\n\n{\"a\":2}")), 0),
             "a.jsonl:1:{\"a\":1}|a.jsonl:3:{\"a\":2}|"));
    CHECK(is(spelled_one(files_write("b.json", TEXT("[\n {\"a\":1},\n 2\n]\n")), 0),
             "b.json:2:{\"a\":1}|b.json:3:2|"));
    CHECK(is(spelled_one(files_write("c.csv", TEXT("x,y\r\n1,2\r\n\"a\nb\",3\r\n")), 0),
             "c.csv:2:1,2|c.csv:3:\"a\nb\",3|"));
    CHECK(is(spelled_one(files_write("d.txt", TEXT("one\n\ntwo")), 0),
             "d.txt:1:one|d.txt:2:|d.txt:3:two|"));
    CHECK(is(spelled_one(files_write("e", TEXT("{\n\"a\":\n1}")), 0), "e:1:{\n\"a\":\n1}|"));
    CHECK(is(spelled_one(files_write("f.jsonl", TEXT("")), 0), ""));
}

TEST(source_drops_a_byte_order_mark)
{
    CHECK(
        is(spelled_one(files_write("bom.jsonl", TEXT("\xEF\xBB\xBF{}\n")), 0), "bom.jsonl:1:{}|"));
    const char *path = files_write("utf16.txt", TEXT("\xFF\xFEh\0i\0"));
    CHECK(is(spelled_one(path, 0), "error 3"));
    CHECK(strstr(error_text(), "iconv"));
}

TEST(source_gives_csv_names_with_every_block)
{
    const char *path = files_write("names.csv", TEXT("id;\"te\"\"xt\"\n1;a\n2;b\n3;c\n"));
    struct source source;
    struct block block = { 0 };
    bool more = true;
    int rows = 0;
    CHECK(
        !source_open(&source, &test_arena, &path, 1, &(struct source_options){ .block_bytes = 8 }));
    while (!source_next(&source, &block, &more) && more) {
        struct lines walk = block.rows;
        struct text row, cells[2];
        CHECK(block.name_count == 2 && text_is(block.names[1], "te\"xt"));
        for (; lines_next(&walk, &row); rows++) {
            CHECK(!lines_cells(row, walk.cutter.separator, &test_arena, cells, block.name_count));
            CHECK(cells[1].at[0] == 'a' + rows);
        }
    }
    CHECK(rows == 3);
    source_block_release(&block);
    source_close(&source);
}

TEST(source_blocks_of_any_size_hold_the_same_rows)
{
    struct out json = { .arena = &test_arena }, list = { .arena = &test_arena };
    struct out csv = { .arena = &test_arena };
    out_put(&csv, "k,v\n");
    for (int i = 0; i < 300; i++) {
        out_put(&json, "{\"k\": %d, \"v\": \"%*s\"}\r\n%s", i, i % 37, "x\\\"", i % 9 ? "" : "\n");
        out_put(&list, "%s{\"k\": [%d],\n \"v\": \"]}%*s\"}", i ? ", " : " [", i, i % 41, "\\\\");
        out_put(&csv, "%d,\"%*s\n\"\"\"\n", i, i % 29, "y,");
    }
    out_put(&list, "]");
    const char *paths[] = { files_write("s.jsonl", out_view(&json)),
                            files_write("s.json", out_view(&list)),
                            files_write("s.csv", out_view(&csv)) };
    for (int i = 0; i < 3; i++) {
        const char *once = spelled_one(paths[i], 0);
        CHECK(strlen(once) > 5000);
        for (size_t block_bytes = 1; block_bytes < 2000; block_bytes = block_bytes * 2 + 1)
            CHECK(!strcmp(once, spelled_one(paths[i], block_bytes)));
    }
}

TEST(source_reads_folders_patterns_and_many_files_in_order)
{
    files_write("set/b.jsonl", TEXT("2\n"));
    files_write("set/a.jsonl", TEXT("1\n"));
    files_write("set/deep/c.txt", TEXT("3"));
    files_write("set/README.md", TEXT("no"));
    files_write("set/.hidden.jsonl", TEXT("no"));
    files_write("set/dataset_info.json", TEXT("{}"));
    files_write("set/Readme.txt", TEXT("no"));
    files_write("set/deep/LICENSE.txt", TEXT("no"));
    files_write("set/requirements-dev.txt", TEXT("no"));
    files_write("set/licenses.txt", TEXT("4"));
    const char *folder = files_path("set"), *pattern = files_path("set/[ab].jsonl");
    const char *words[] = { pattern, folder };
    CHECK(is(spelled(words, 2, (struct source_options){ 0 }),
             "a.jsonl:1:1|b.jsonl:1:2|a.jsonl:1:1|b.jsonl:1:2|c.txt:1:3|licenses.txt:1:4|"));
    CHECK(is(spelled_one(files_path("set/Readme.txt"), 0), "Readme.txt:1:no|"));
    struct inputs inputs;
    CHECK(!inputs_find(&inputs, &test_arena, words, 2) && inputs.total_bytes == 10);
}

// The rows of the files that a pattern below the folder "tree" matches.
static const char *matched(const char *pattern)
{
    return spelled_one(text_format(&test_arena, "%s/%s", files_path("tree"), pattern), 0);
}

TEST(two_stars_stand_for_any_number_of_folders)
{
    files_write("tree/a.jsonl", TEXT("1\n"));
    files_write("tree/x/b.jsonl", TEXT("2\n"));
    files_write("tree/x/y/c.jsonl", TEXT("3\n"));
    files_write("tree/x/y/d.txt", TEXT("4"));
    files_write("tree/x/y/x/e.jsonl", TEXT("5\n"));
    files_write("tree/.git/f.jsonl", TEXT("no"));
    files_write("tree/x/.g.jsonl", TEXT("no"));
    CHECK(is(matched("**/*.jsonl"), "a.jsonl:1:1|b.jsonl:1:2|c.jsonl:1:3|e.jsonl:1:5|"));
    CHECK(is(matched("**/y/*"), "c.jsonl:1:3|d.txt:1:4|e.jsonl:1:5|"));
    CHECK(is(matched("x/**/c.jsonl"), "c.jsonl:1:3|"));
    CHECK(is(matched("**/x/**/*.jsonl"), "b.jsonl:1:2|c.jsonl:1:3|e.jsonl:1:5|"));
    CHECK(is(matched("x/y/**"), "c.jsonl:1:3|d.txt:1:4|e.jsonl:1:5|"));
    CHECK(is(matched("**/x"), "b.jsonl:1:2|c.jsonl:1:3|d.txt:1:4|e.jsonl:1:5|"));
    CHECK(is(matched("**.jsonl"), "a.jsonl:1:1|"));
    CHECK(is(matched("**/.g.jsonl"), ".g.jsonl:1:no|"));
    CHECK(is(matched("**/*.parquet"), "error 3"));
    CHECK(strstr(error_text(), "no file matches this pattern"));
}

TEST(source_names_what_cannot_be_read)
{
    CHECK(is(spelled_one(files_path("absent.jsonl"), 0), "error 3"));
    CHECK(strstr(error_text(), "absent.jsonl: cannot be opened"));
    CHECK(is(spelled_one(files_path("absent-*.jsonl"), 0), "error 3"));
    CHECK(is(spelled_one("", 0), "error 3"));
    files_write("empty/notes.md", TEXT("no data"));
    CHECK(is(spelled_one(files_path("empty"), 0), "error 3"));
    CHECK(strstr(error_text(), "holds no data file"));
    CHECK(is(spelled_one(files_write("q.csv", TEXT("a,\"b\n")), 0), "error 3"));
    CHECK(strstr(error_text(), "q.csv:1: the header has an unclosed quoted cell"));
}

TEST(source_refuses_what_is_no_dataset_and_says_what_is_read)
{
    CHECK(is(spelled_one(files_write("weights.bin", TEXT("\x80\0\0\x01")), 0), "error 3"));
    CHECK(strstr(error_text(), "weights.bin: contains NUL bytes"));
    char tar[1024] = "train.jsonl";
    memcpy(tar + 257, "ustar", 5);
    CHECK(
        is(spelled_one(files_gzip("set.tar.gz", (struct text){ tar, sizeof tar }), 0), "error 3"));
    CHECK(strstr(error_text(), "set.tar.gz: is a tar archive"));
}

TEST(source_refuses_a_web_page_that_is_named_as_data)
{
    struct text page = TEXT("\xEF\xBB\xBF\n<!DOCTYPE html>\n<title>404</title>\n");
    static const char *const names[] = { "page.jsonl", "page.json",    "page.csv",
                                         "page.tsv",   "page.parquet", "page.arrow" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(is(spelled_one(files_write(names[i], page), 0), "error 3"));
        CHECK(strstr(error_text(), names[i]) && strstr(error_text(), ": is a web page, not the"));
    }
    CHECK(is(spelled_one(files_gzip("page.jsonl.gz", TEXT("<html lang=en>\n")), 0), "error 3"));
    CHECK(strstr(error_text(), "page.jsonl.gz: is a web page"));
    CHECK(is(spelled_one(files_write("page.txt", TEXT("<html>")), 0), "page.txt:1:<html>|"));
    CHECK(is(spelled_one(files_write("page.html", TEXT("<html>")), 0), "page.html:1:<html>|"));
    CHECK(is(spelled_one(files_write("no_page.csv", TEXT("<htmlish>,b\n1,2\n")), 0),
             "no_page.csv:2:1,2|"));
}

TEST(source_refuses_the_error_message_of_an_object_store_by_its_code)
{
    struct text error =
        TEXT("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code>"
             "<Message>The specified key does not exist.</Message></Error>");
    static const char *const names[] = { "s3.jsonl", "s3.json", "s3.csv", "s3.parquet" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(is(spelled_one(files_write(names[i], error), 0), "error 3"));
        CHECK(
            strstr(error_text(), ": is an error message of an object store (NoSuchKey), not data"));
    }
    CHECK(is(spelled_one(files_write("s3.txt", TEXT("<Error>")), 0), "s3.txt:1:<Error>|"));
    CHECK(is(spelled_one(files_write("x.csv", TEXT("<?xml?>,b\n1,2\n")), 0), "x.csv:2:1,2|"));
}

TEST(source_takes_the_separator_that_excel_names_in_the_first_line)
{
    struct text table = TEXT("\xEF\xBB\xBFsep=;\r\ntext;id\r\none, two;1\r\n");
    CHECK(is(spelled_one(files_write("excel.csv", table), 0), "excel.csv:3:one, two;1|"));
}

TEST(source_refuses_lines_that_would_all_be_one)
{
    CHECK(is(spelled_one(files_write("mac.csv", TEXT("text,id\rone,1\rtwo,2\r")), 0), "error 3"));
    CHECK(strstr(error_text(), "mac.csv: ends its lines with carriage returns alone"));
    CHECK(is(spelled_one(files_write("mac.txt", TEXT("one\rtwo")), 0), "error 3"));
    CHECK(is(spelled_one(files_write("end.txt", TEXT("one\r")), 0), "end.txt:1:one|"));
    CHECK(is(spelled_one(files_write("wide.csv", TEXT("t\0e\0x\0t\0\n\0a\0\n\0")), 0), "error 3"));
    CHECK(strstr(error_text(), "text in UTF-8"));
    CHECK(is(spelled_one(files_write("wide.txt", TEXT("h\0i\0\n\0")), 0), "error 3"));
}

TEST(source_refuses_a_pointer_of_git_lfs)
{
    static const char *const names[] = { "lfs.jsonl", "lfs.parquet", "lfs.txt", "lfs.csv" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct text pointer = TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2\n"
                                   "size 12345\n");
        CHECK(is(spelled_one(files_write(names[i], pointer), 0), "error 3"));
        CHECK(strstr(error_text(), ": is a pointer of Git LFS"));
    }
}

TEST(source_counts_a_row_that_is_too_long_and_goes_on)
{
    struct source_options options = { .block_bytes = 70000, .row_limit_bytes = 80000 };
    static char text[200100];
    snprintf(text, sizeof text, "{\"a\":1}\n{\"b\": \"%0200000d\"}\n{\"c\":3}\n", 0);
    const char *path = files_write("long.jsonl", text_of(text));
    CHECK(is(spelled(&path, 1, options),
             "long.jsonl:1:{\"a\":1}|long.jsonl:2:!|long.jsonl:3:{\"c\":3}|"));
    snprintf(text, sizeof text, "[1,\n{\"b\": [\"]\",\n\"%0200000d\"]},\n3,\n4]", 0);
    path = files_write("long.json", text_of(text));
    CHECK(
        is(spelled(&path, 1, options), "long.json:1:1|long.json:2:!|long.json:4:3|long.json:5:4|"));
    snprintf(text, sizeof text, "h\n1\n\"%0200000d\n\n\"\n2\n", 0);
    path = files_write("long.csv", text_of(text));
    CHECK(is(spelled(&path, 1, options), "long.csv:2:1|long.csv:3:!|long.csv:6:2|"));
    snprintf(text, sizeof text, "a\n%0200000d", 0);
    path = files_write("long.txt", text_of(text));
    CHECK(is(spelled(&path, 1, options), "long.txt:1:a|long.txt:2:!|"));
}

TEST(source_says_when_a_list_is_cut_off)
{
    CHECK(is(spelled_one(files_write("cut.json", TEXT("[1,\n2,\n")), 0),
             "cut.json:1:1|cut.json:2:2|cut.json:3:!|"));
    CHECK(is(spelled_one(files_write("cut2.json", TEXT("[1,\n{\"a")), 0),
             "cut2.json:1:1|cut2.json:2:{\"a|"));
}

TEST(source_reads_packed_files_like_plain_ones)
{
    files_gzip("p.jsonl.gz", TEXT("{\"a\":1}\n{\"a\""));
    const char *gzip = files_gzip("p.jsonl.gz", TEXT(":2}\n")); // a second member
    const char *zstd = files_zstd("p.json.zst", TEXT("[1, 2]"));
    CHECK(is(spelled_one(gzip, 0), "p.jsonl.gz:1:{\"a\":1}|p.jsonl.gz:2:{\"a\":2}|"));
    CHECK(is(spelled_one(zstd, 0), "p.json.zst:1:1|p.json.zst:1:2|"));
}

static int64_t peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

// Rows and bad rows of a packed stream of one byte, repeated.
static void count_repeated(char byte, int64_t bytes, int64_t *rows, int64_t *bad)
{
    size_t piece = 1 << 20;
    char *text = arena_alloc(&test_arena, piece);
    memset(text, byte, piece);
    char name[32];
    snprintf(name, sizeof name, "repeated-%02x.txt.zst", byte);
    const char *path = NULL;
    for (int64_t i = 0; i < bytes; i += (int64_t)piece)
        path = files_zstd(name, (struct text){ text, piece });
    struct source source;
    struct block block = { 0 };
    bool more = true;
    *rows = *bad = 0;
    CHECK(!source_open(&source, &test_arena, &path, 1,
                       &(struct source_options){ .unpack_ratio_limit = 1e9 }));
    while (!source_next(&source, &block, &more) && more) {
        *bad += block.problem != NULL;
        for (struct text row; lines_next(&block.rows, &row);)
            ++*rows;
    }
    source_block_release(&block);
    source_close(&source);
}

TEST(source_stays_small_over_ten_million_empty_rows_and_a_giant_one)
{
    int64_t rows, bad, before_kib = peak_kib();
    int64_t many = (10 << 20) / TEST_CASES_OF;
    count_repeated('\n', many, &rows, &bad);
    CHECK(rows == many && !bad);
    count_repeated('x', (int64_t)(TEST_UNDER_SANITIZER ? 80 : 256) << 20, &rows, &bad);
    CHECK(rows == 0 && bad == 1);
    // The row is given up at 64 MiB. A sanitizer's own memory is not counted.
    CHECK(TEST_UNDER_SANITIZER || peak_kib() - before_kib < 100 * 1024);
}

TEST(source_reads_standard_input)
{
    const char *path = files_gzip("stdin.gz", TEXT("{\"a\":1}\n{\"a\":2}\n")), *word = "-";
    int kept = dup(STDIN_FILENO), fd = open(path, O_RDONLY);
    dup2(fd, STDIN_FILENO);
    CHECK(is(spelled(&word, 1, (struct source_options){ 0 }),
             "standard input:1:{\"a\":1}|standard input:2:{\"a\":2}|"));
    dup2(kept, STDIN_FILENO);
    close(kept);
    close(fd);
}

struct summing {
    struct source source;
    uint64_t sum; // depends on the order of rows
};

struct summed {
    struct block block;
    uint64_t values[512];
    int count;
};

static enum err take(void *context, void *item, bool *more)
{
    return source_next(&((struct summing *)context)->source, &((struct summed *)item)->block, more);
}

static enum err work(void *context, void *item_, int worker)
{
    (void)context, (void)worker;
    struct summed *item = item_;
    struct lines rows = item->block.rows;
    item->count = 0;
    for (struct text row; lines_next(&rows, &row) && item->count < 512;)
        item->values[item->count++] = (uint64_t)rows.line * 31 + row.size;
    return OK;
}

static enum err give(void *context, void *item_)
{
    struct summed *item = item_;
    struct summing *run = context;
    for (int i = 0; i < item->count; i++)
        run->sum = run->sum * 1000003 + item->values[i];
    return OK;
}

static void drop(void *context, void *item)
{
    (void)context;
    source_block_release(&((struct summed *)item)->block);
}

static enum err sum_files(const char *const *paths, size_t count, int workers, uint64_t *sum)
{
    struct summing run = { 0 };
    struct pool_job job = { .context = &run,
                            .item_size = sizeof(struct summed),
                            .take = take,
                            .work = work,
                            .give = give,
                            .drop = drop };
    CHECK(!source_open(&run.source, &test_arena, paths, count,
                       &(struct source_options){ .block_bytes = 500 }));
    enum err err = pool_run(&job, workers);
    *sum = run.sum;
    source_close(&run.source);
    return err;
}

TEST(source_gives_the_same_result_and_failure_for_any_number_of_threads)
{
    struct out out = { .arena = &test_arena };
    for (int i = 0; i < 3000; i++)
        out_put(&out, "%d %*s\n", i, i % 53, "");
    const char *paths[2] = { files_write("many.txt", out_view(&out)),
                             files_write("bad.txt.gz", TEXT("\x1F\x8B\x08 damaged")) };
    uint64_t one, some, before;
    CHECK(!sum_files(paths, 1, 1, &one) && one);
    for (int workers = 2; workers <= 4; workers++)
        CHECK(!sum_files(paths, 1, workers, &some) && some == one);
    CHECK(sum_files(paths, 2, 1, &before) == ERR_INPUT && before == one);
    for (int workers = 2; workers <= 4; workers++) {
        CHECK(sum_files(paths, 2, workers, &some) == ERR_INPUT && some == one);
        CHECK(strstr(error_text(), "bad.txt.gz: the gzip data is damaged"));
    }
}
