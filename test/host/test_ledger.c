// SPDX-License-Identifier: Apache-2.0
#include "core/measured/history.h"
#include "host/file.h"
#include "host/ledger.h"
#include "test/files.h"
#include "test/test.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct history_entry entry_of(const char *uid)
{
    struct history_entry e;
    history_clear(&e);
    e.uid = uid, e.kind = HISTORY_PLAN, e.at = "2026-11-15T11:20:05Z";
    e.stack = "hf-peft", e.gpu = "h100-sxm", e.gpus = 8, e.context = 4096;
    e.gpu_hours = (struct range){ 1, 2, 3 };
    e.document = "{\"kind\":\"plan\"}";
    return e;
}

static struct ledger *open_at(const char *path)
{
    struct ledger *ledger = NULL;
    struct ledger_options options = { .path = path, .wait_seconds = 60 };
    CHECK(!ledger_open(&ledger, &options));
    return ledger;
}

static size_t count_of(const char *path)
{
    struct ledger *ledger = open_at(path);
    void *rows;
    size_t count = 0;
    if (ledger)
        CHECK(!ledger_find(ledger, &test_arena, history_fields, sizeof(struct history_entry), NULL,
                           0, &rows, &count));
    ledger_close(ledger);
    return count;
}

static void add_one(const char *path, const char *uid)
{
    struct ledger *ledger = open_at(path);
    struct history_entry e = entry_of(uid);
    CHECK(ledger && !ledger_add(ledger, history_fields, &e));
    ledger_close(ledger);
}

// Runs SQL as another program would.
static void run_sql(const char *path, const char *sql)
{
    sqlite3 *database = NULL;
    CHECK(!sqlite3_open(path, &database));
    CHECK(!sqlite3_exec(database, sql, NULL, NULL, NULL));
    sqlite3_close(database);
}

static int ask_sql(const char *path, const char *sql)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    int answer = -1;
    CHECK(!sqlite3_open(path, &database));
    CHECK(!sqlite3_prepare_v2(database, sql, -1, &statement, NULL));
    if (sqlite3_step(statement) == SQLITE_ROW)
        answer = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return answer;
}

TEST(ledger_gives_back_what_was_added)
{
    const char *path = files_path("ledger/new/folder/ledger.sqlite");
    struct history_entry e = entry_of("0000000000000001"), *back;
    e.name = "it's; a \"name\"";
    struct ledger *ledger = open_at(path);
    CHECK(!ledger_notice(ledger));
    CHECK(!ledger_add(ledger, history_fields, &e) && e.id == 1);
    struct ledger_filter like[] = { { "name", "=", e.name }, { "gpus", ">=", "8" }, { 0 } };
    void *rows;
    size_t count;
    CHECK(!ledger_find(ledger, &test_arena, history_fields, sizeof e, like, 0, &rows, &count));
    CHECK(count == 1);
    back = rows;
    CHECK(back->id == 1 && back->kind == HISTORY_PLAN && !strcmp(back->name, e.name));
    CHECK(back->gpu_hours.high == 3 && isnan(back->actual_gpu_hours) && !back->model);
    CHECK(back->context == 4096 && !strcmp(back->document, e.document));
    ledger_close(ledger);
}

TEST(ledger_keeps_the_same_entry_once_with_its_newer_time)
{
    const char *path = files_path("ledger/once.sqlite");
    struct ledger *ledger = open_at(path);
    struct history_entry a = entry_of("0000000000000001"), b = a;
    a.name = "night", b.at = "2026-12-01T00:00:00Z";
    CHECK(!ledger_add(ledger, history_fields, &a) && !ledger_add(ledger, history_fields, &b));
    CHECK(a.id == b.id);
    void *rows;
    size_t count;
    CHECK(!ledger_find(ledger, &test_arena, history_fields, sizeof a, NULL, 0, &rows, &count));
    CHECK(count == 1 && !strcmp(((struct history_entry *)rows)->at, b.at));
    CHECK(count == 1 && !strcmp(((struct history_entry *)rows)->name, "night"));
    bool found = false;
    CHECK(!ledger_delete(ledger, a.id, &found) && found);
    CHECK(!ledger_delete(ledger, a.id, &found) && !found);
    struct history_entry c = entry_of("0000000000000002");
    CHECK(!ledger_add(ledger, history_fields, &c) && c.id > a.id); // no id is given twice
    ledger_close(ledger);
}

TEST(ledger_leaves_out_an_entry_that_is_not_what_was_written)
{
    static const char *const damages[] = { "actual_wall_hours = actual_wall_hours + 1e-9",
                                           "document = replace(document, '1', '2')",
                                           "model = 'another'" };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const char *path = files_path(text_format(&test_arena, "ledger/sums%zu.sqlite", i));
        struct history_entry a = entry_of("0000000000000001"), b = entry_of("0000000000000002");
        a.actual_wall_hours = 2, a.document = "{\"tokens\":10000000}";
        struct ledger *ledger = open_at(path);
        CHECK(!ledger_add(ledger, history_fields, &a) && !ledger_add(ledger, history_fields, &b));
        ledger_close(ledger);
        run_sql(path, text_format(&test_arena, "UPDATE entry SET %s WHERE id = 1", damages[i]));
        void *rows;
        size_t count;
        ledger = open_at(path);
        CHECK(!ledger_find(ledger, &test_arena, history_fields, sizeof a, NULL, 0, &rows, &count));
        CHECK(count == 1 && ((struct history_entry *)rows)->id == 2);
        CHECK(ledger_damaged(ledger) == 1);
        ledger_close(ledger);
    }
}

TEST(ledger_lists_the_newest_first_and_no_more_than_asked)
{
    struct ledger *ledger = open_at(files_path("ledger/order.sqlite"));
    struct history_entry entries[3] = { entry_of("0000000000000001"), entry_of("0000000000000002"),
                                        entry_of("0000000000000003") };
    entries[0].at = "2026-11-16T00:00:00Z";
    size_t added, count;
    void *rows;
    CHECK(!ledger_add_all(ledger, history_fields, entries, sizeof *entries, 3, &added));
    CHECK(added == 3);
    CHECK(!ledger_add_all(ledger, history_fields, entries, sizeof *entries, 3, &added));
    CHECK(added == 0);
    CHECK(
        !ledger_find(ledger, &test_arena, history_fields, sizeof *entries, NULL, 2, &rows, &count));
    CHECK(count == 2);
    CHECK(((struct history_entry *)rows)[0].id == 1 && ((struct history_entry *)rows)[1].id == 3);
    ledger_close(ledger);
}

// --- several at once, and killed ---------------------------------------------

static void write_many(const char *path, int writer, int count)
{
    for (int i = 0; i < count; i++) {
        char uid[32];
        snprintf(uid, sizeof uid, "%08d%08d", writer, i);
        struct history_entry e = entry_of(uid);
        struct ledger *ledger;
        struct ledger_options options = { .path = path, .wait_seconds = 60 };
        if (ledger_open(&ledger, &options) || ledger_add(ledger, history_fields, &e)) {
            fprintf(stderr, "writer %d: %s\n", writer, error_text());
            _exit(1);
        }
        ledger_close(ledger);
    }
    _exit(0);
}

TEST(ledger_of_eight_writers_at_once_has_every_entry)
{
    enum { WRITERS = 8, EACH = 25 };
    const char *path = files_path("ledger/many.sqlite"); // made by all of them at once, too
    pid_t children[WRITERS];
    fflush(stdout);
    for (int i = 0; i < WRITERS; i++)
        if (!(children[i] = fork()))
            write_many(path, i, EACH);
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    CHECK(count_of(path) == WRITERS * EACH);
}

// Tells the parent of each entry once it is added, until it is killed.
static void write_until_killed(const char *path, int round, int pipe_fd)
{
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 60 };
    if (ledger_open(&ledger, &options))
        _exit(1);
    for (int i = 0;; i++) {
        char uid[32];
        snprintf(uid, sizeof uid, "%08d%08d", round, i);
        struct history_entry e = entry_of(uid);
        if (ledger_add(ledger, history_fields, &e) || write(pipe_fd, "+", 1) != 1)
            _exit(1);
    }
}

TEST(ledger_killed_in_the_middle_of_writing_loses_nothing_that_was_added)
{
    const char *path = files_path("ledger/killed.sqlite");
    size_t told = 0;
    for (int round = 0; round < 20; round++) {
        int ends[2];
        CHECK(!pipe(ends));
        fflush(stdout);
        pid_t child = fork();
        if (!child)
            write_until_killed(path, round, ends[1]);
        close(ends[1]);
        char byte;
        for (int i = 0; i <= round && read(ends[0], &byte, 1) == 1; i++)
            told++;
        kill(child, SIGKILL);
        while (read(ends[0], &byte, 1) == 1)
            told++;
        close(ends[0]);
        waitpid(child, NULL, 0);
        size_t there = count_of(path);
        // One may be there of which the parent was not told: killed between the two, each round.
        CHECK(told > 0 && there >= told && there <= told + (size_t)round + 1);
    }
    CHECK(ask_sql(path,
                  "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") == 1);
}

TEST(ledger_locked_by_another_program_is_an_error_after_a_wait)
{
    const char *path = files_path("ledger/locked.sqlite");
    add_one(path, "0000000000000001");
    sqlite3 *other;
    CHECK(!sqlite3_open(path, &other));
    CHECK(!sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 0.05 };
    CHECK(!ledger_open(&ledger, &options)); // readers do not wait
    struct history_entry e = entry_of("0000000000000002");
    CHECK(ledger_add(ledger, history_fields, &e) == ERR_UNAVAILABLE);
    CHECK(strstr(error_text(), "locked"));
    sqlite3_exec(other, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(other);
    CHECK(!ledger_add(ledger, history_fields, &e));
    ledger_close(ledger);
    CHECK(count_of(path) == 2);
}

// --- old, new, foreign and damaged files -------------------------------------

// Schema 1, as files of that time have it: a copy that never changes.
static const char schema_1[] =
    "CREATE TABLE entry (id INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL UNIQUE,"
    " kind TEXT NOT NULL, at TEXT NOT NULL, program TEXT, name TEXT, plan TEXT, key TEXT,"
    " model TEXT, method TEXT, stack TEXT, gpu TEXT, gpus INTEGER, context INTEGER, tokens REAL,"
    " tokens_per_second_p10 REAL, tokens_per_second_p50 REAL, tokens_per_second_p90 REAL,"
    " wall_hours_p10 REAL, wall_hours_p50 REAL, wall_hours_p90 REAL,"
    " gpu_hours_p10 REAL, gpu_hours_p50 REAL, gpu_hours_p90 REAL,"
    " actual_tokens_per_second REAL, actual_wall_hours REAL, actual_gpu_hours REAL,"
    " configuration TEXT, document TEXT);"
    "CREATE INDEX entry_kind_key ON entry (kind, key);"
    "INSERT INTO entry (uid, kind, at, gpu_hours_p50) VALUES"
    " ('0000000000000001', 'run', '2026-01-01T00:00:00Z', 4.5),"
    " ('0000000000000002', 'plan', '2026-01-02T00:00:00Z', NULL);"
    "PRAGMA user_version = 1;";

TEST(ledger_of_an_old_schema_is_brought_up_to_date_with_its_entries)
{
    const char *path = files_path("ledger/old.sqlite");
    run_sql(path, schema_1);
    struct ledger *ledger = open_at(path);
    void *rows;
    size_t count;
    CHECK(!ledger_find(ledger, &test_arena, history_fields, sizeof(struct history_entry), NULL, 0,
                       &rows, &count));
    CHECK(count == 2);
    const struct history_entry *old = (struct history_entry *)rows + 1;
    CHECK(old->kind == HISTORY_RUN && old->gpu_hours.mid == 4.5);
    CHECK(isnan(old->roofline_tokens_per_second));
    struct history_entry e = entry_of("0000000000000003");
    e.roofline_tokens_per_second = 100;
    CHECK(!ledger_add(ledger, history_fields, &e) && e.id == 3);
    ledger_close(ledger);
}

TEST(ledger_that_cannot_be_brought_up_to_date_stays_as_it_was)
{
    const char *path = files_path("ledger/odd.sqlite");
    run_sql(path, "CREATE TABLE poem (line TEXT); INSERT INTO poem VALUES ('a'); "
                  "PRAGMA user_version = 1;");
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 1 };
    CHECK(ledger_open(&ledger, &options) == ERR_INPUT && !ledger);
    CHECK(ask_sql(path, "PRAGMA user_version") == 1);
    CHECK(ask_sql(path, "SELECT count(*) FROM poem") == 1);
    const char *foreign = files_path("ledger/foreign.sqlite");
    run_sql(foreign, "CREATE TABLE poem (line TEXT);");
    options.path = foreign;
    CHECK(ledger_open(&ledger, &options) == ERR_INPUT && strstr(error_text(), "another program"));
    struct text file;
    enum { WRITE_VERSION = 18 }; // in SQLite's header; 2: with a write-ahead log
    CHECK(!file_read(&file, &test_arena, foreign) && file.at[WRITE_VERSION] == 1);
}

// That a refused file has the same bytes as before, and that nothing appeared beside it.
static void check_untouched(const char *path, enum err expected, const char *why)
{
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 1 };
    struct text before, after;
    CHECK(!file_read(&before, &test_arena, path));
    CHECK(ledger_open(&ledger, &options) == expected && !ledger && strstr(error_text(), why));
    CHECK(!file_read(&after, &test_arena, path) && before.size == after.size &&
          !memcmp(before.at, after.at, after.size));
    static const char *const parts[] = { "-wal", "-shm", "-journal" };
    for (int i = 0; i < 3; i++)
        CHECK(access(text_format(&test_arena, "%s%s", path, parts[i]), F_OK));
}

TEST(ledger_of_a_newer_schema_is_refused_and_not_touched)
{
    const char *path = files_path("ledger/newer.sqlite");
    add_one(path, "0000000000000001");
    run_sql(path, "PRAGMA journal_mode = DELETE; PRAGMA user_version = 999");
    check_untouched(path, ERR_UNAVAILABLE, "newer");
    CHECK(ask_sql(path, "SELECT count(*) FROM entry") == 1);
}

TEST(ledger_is_no_database_of_another_program_whatever_its_version)
{
    for (int version = 0; version < 4; version++) {
        const char *path =
            files_path(text_format(&test_arena, "ledger/foreign-%d.sqlite", version));
        run_sql(path,
                text_format(&test_arena, "CREATE TABLE poem (line TEXT); PRAGMA user_version = %d",
                            version));
        check_untouched(path, ERR_INPUT, "another program");
    }
}

static size_t size_of(const char *path)
{
    struct stat about;
    return stat(path, &about) ? 0 : (size_t)about.st_size;
}

TEST(ledger_that_is_damaged_is_renamed_and_a_new_one_created)
{
    const char *path = files_write("ledger/damaged.sqlite", TEXT("this was a ledger once, maybe"));
    const char *aside = files_path("ledger/damaged.sqlite.damaged-1");
    struct ledger *ledger = open_at(path);
    CHECK(ledger_notice(ledger) && strstr(ledger_notice(ledger), "damaged-1"));
    struct history_entry e = entry_of("0000000000000001");
    CHECK(!ledger_add(ledger, history_fields, &e));
    ledger_close(ledger);
    CHECK(size_of(aside) == strlen("this was a ledger once, maybe"));
    files_write("ledger/damaged.sqlite", TEXT("and again"));
    unlink(files_path("ledger/damaged.sqlite-wal"));
    ledger_close(open_at(path));
    CHECK(size_of(aside) == strlen("this was a ledger once, maybe")); // never written over
    CHECK(size_of(files_path("ledger/damaged.sqlite.damaged-2")) == strlen("and again"));
}

TEST(ledger_that_the_user_named_and_is_no_database_stays_where_it_is)
{
    const char *path = files_write("ledger/train.jsonl", TEXT("{\"text\": \"precious rows\"}\n"));
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 1, .asked = true };
    CHECK(ledger_open(&ledger, &options) == ERR_INPUT);
    CHECK(size_of(path) == strlen("{\"text\": \"precious rows\"}\n"));
    CHECK(access(files_path("ledger/train.jsonl.damaged-1"), F_OK));
}

TEST(ledger_leaves_the_database_of_another_program_as_it_is)
{
    const char *path = files_path("ledger/theirs.sqlite");
    unlink(path);
    run_sql(path, "CREATE TABLE theirs (a)");
    size_t before = size_of(path);
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 1, .asked = true };
    CHECK(ledger_open(&ledger, &options) == ERR_INPUT && strstr(error_text(), "another program"));
    CHECK(size_of(path) == before && access(files_path("ledger/theirs.sqlite-wal"), F_OK));
    char versions[2] = { 0 }; // 1: a rollback journal, 2: a write-ahead log
    int fd = open(path, O_RDONLY);
    CHECK(pread(fd, versions, 2, 18) == 2 && versions[0] == 1 && versions[1] == 1);
    close(fd);
}

// Pages in the middle of a large file are overwritten, as by a bad disk.
static void damage_pages(const char *path)
{
    run_sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    int fd = open(path, O_WRONLY);
    char noise[4096];
    memset(noise, 0xA5, sizeof noise);
    for (size_t at = 8 * 4096; at + 4096 < size_of(path) / 2; at += 4096)
        CHECK(pwrite(fd, noise, sizeof noise, (off_t)at) == (ssize_t)sizeof noise);
    close(fd);
}

TEST(ledger_with_damaged_pages_gives_back_what_can_be_read)
{
    enum { COUNT = 200 };
    const char *path = files_path("ledger/pages.sqlite");
    struct history_entry entries[COUNT];
    char uids[COUNT][32], document[3000];
    memset(document, 'x', sizeof document - 1);
    document[sizeof document - 1] = 0;
    for (int i = 0; i < COUNT; i++) {
        snprintf(uids[i], sizeof uids[i], "%016d", i);
        entries[i] = entry_of(uids[i]);
        entries[i].document = document;
    }
    struct ledger *ledger = open_at(path);
    size_t added, count, lost;
    CHECK(!ledger_add_all(ledger, history_fields, entries, sizeof *entries, COUNT, &added));
    CHECK(added == COUNT);
    ledger_close(ledger);
    damage_pages(path);
    struct ledger_options options = { .path = path, .wait_seconds = 1, .copied = true };
    CHECK(!ledger_open(&ledger, &options));
    void *rows;
    CHECK(!ledger_salvage(ledger, &test_arena, history_fields, sizeof *entries, &rows, &count,
                          &lost));
    ledger_close(ledger);
    CHECK(count >= COUNT / 4 && lost > 0 && count + lost == COUNT);
    for (size_t i = 0; i < count; i++)
        CHECK(!strcmp(((struct history_entry *)rows)[i].document, document));
}

// The entry and its number of added entries, which is damaged too.
static void salvage_with_sequence(const char *path, const char *sequence, size_t *count,
                                  size_t *lost)
{
    run_sql(path, text_format(&test_arena, "UPDATE sqlite_sequence SET seq = %s", sequence));
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 1, .copied = true };
    void *rows;
    CHECK(!ledger_open(&ledger, &options));
    CHECK(!ledger_salvage(ledger, &test_arena, history_fields, sizeof(struct history_entry), &rows,
                          count, lost));
    ledger_close(ledger);
}

TEST(ledger_salvage_does_not_trust_the_number_of_entries)
{
    const char *path = files_path("ledger/sequence.sqlite");
    size_t count, lost;
    add_one(path, "0000000000000001");
    add_one(path, "0000000000000002");
    run_sql(path, "UPDATE entry SET id = 5000000 WHERE id = 2");
    salvage_with_sequence(path, "9000000000000000", &count, &lost);
    CHECK(count == 2 && lost == 0);
    salvage_with_sequence(path, "1", &count, &lost);
    CHECK(count == 2 && lost == 0);
}

TEST(ledger_salvage_ends_where_the_last_page_and_the_number_of_entries_are_damaged)
{
    const char *path = files_path("ledger/root.sqlite");
    size_t count, lost;
    add_one(path, "0000000000000001");
    run_sql(path, "UPDATE sqlite_sequence SET seq = 9000000000000000; PRAGMA wal_checkpoint");
    int page = ask_sql(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'entry'");
    int size = ask_sql(path, "PRAGMA page_size");
    char noise[64];
    memset(noise, 0xA5, sizeof noise);
    int fd = open(path, O_WRONLY);
    CHECK(pwrite(fd, noise, sizeof noise, (off_t)(page - 1) * size) == (ssize_t)sizeof noise);
    close(fd);
    salvage_with_sequence(path, "9000000000000000", &count, &lost);
    CHECK(count == 0 && lost > 0 && lost < size_of(path));
}

// --- where nothing can be written --------------------------------------------

TEST(ledger_in_a_place_that_is_no_folder_is_a_sentence)
{
    struct ledger *ledger;
    struct ledger_options options = { .path = "/dev/null/ledger.sqlite", .wait_seconds = 1 };
    CHECK(ledger_open(&ledger, &options) == ERR_INPUT && !ledger);
    CHECK(strstr(error_text(), "/dev/null/ledger.sqlite") && strstr(error_text(), "--ledger"));
}

// In a folder that may not be written; root may write everywhere, so it becomes somebody else.
static int look_only(const char *path)
{
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 1 };
    void *rows;
    size_t count = 0;
    if (!geteuid() && setuid(65534))
        return 100;
    struct history_entry e = entry_of("0000000000000002");
    if (!ledger_open(&ledger, &options) && !ledger_add(ledger, history_fields, &e))
        return 101;
    options.copied = true;
    if (ledger_open(&ledger, &options) ||
        ledger_find(ledger, &test_arena, history_fields, sizeof e, NULL, 0, &rows, &count))
        return 102;
    return (int)count;
}

TEST(ledger_that_is_read_only_can_still_be_read)
{
    const char *path = files_path("ledger/only/ledger.sqlite");
    const char *folder = files_path("ledger/only");
    add_one(path, "0000000000000001");
    CHECK(!chmod(files_folder(), 0711) && !chmod(files_path("ledger"), 0711));
    for (int has_log = 1; has_log >= 0; has_log--) {
        fflush(stdout);
        if (!has_log) {
            run_sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
            unlink(files_path("ledger/only/ledger.sqlite-wal"));
            unlink(files_path("ledger/only/ledger.sqlite-shm"));
        }
        CHECK(!chmod(folder, 0555));
        pid_t child = fork();
        if (!child)
            _exit(look_only(path));
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        CHECK(!chmod(folder, 0755));
    }
}

// A limit on the size of files stands for a full disk: writes fail half way.
static int add_until_full(const char *path)
{
    struct rlimit limit = { 256 * 1024, 256 * 1024 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 1 };
    if (ledger_open(&ledger, &options))
        return 0;
    char document[20000];
    memset(document, 'x', sizeof document - 1);
    document[sizeof document - 1] = 0;
    int added = 0;
    for (enum err err = OK; !err && added < 100; added += !err) {
        char uid[32];
        snprintf(uid, sizeof uid, "%016d", added + 1000);
        struct history_entry e = entry_of(uid);
        e.document = document;
        err = ledger_add(ledger, history_fields, &e);
        if (err && !strstr(error_text(), "nothing was added"))
            return 101;
    }
    ledger_close(ledger);
    return added;
}

TEST(ledger_on_a_full_disk_keeps_what_was_added_and_says_so)
{
    const char *path = files_path("ledger/full.sqlite");
    add_one(path, "0000000000000001");
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(add_until_full(path));
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) > 0 && WEXITSTATUS(status) < 100);
    CHECK(count_of(path) == 1 + (size_t)WEXITSTATUS(status));
    add_one(path, "0000000000000002"); // and goes on when there is room again
    CHECK(count_of(path) == 2 + (size_t)WEXITSTATUS(status));
}
