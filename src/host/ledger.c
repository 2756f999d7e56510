// SPDX-License-Identifier: Apache-2.0
// SQLite behind the ledger: schema and upgrades, failures, damaged files, reading and writing.

#include "host/ledger.h"

#include "base/checksum.h"
#include "host/clock.h"
#include "host/file.h"
#include "host/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

// --- the schema --------------------------------------------------------------

// What does not change after an entry was added, and the document, which is too large to be read
// with every entry, have a checksum each: SQLite's pages have none.
#define SUMMED                                                                                    \
    "uid, kind, program, plan, key, model, method, stack, gpu, gpus, context, tokens,"            \
    " tokens_per_second_p10, tokens_per_second_p50, tokens_per_second_p90, wall_hours_p10,"       \
    " wall_hours_p50, wall_hours_p90, gpu_hours_p10, gpu_hours_p50, gpu_hours_p90,"               \
    " actual_tokens_per_second, actual_wall_hours, actual_gpu_hours, roofline_tokens_per_second," \
    " configuration"
#define SET_SUMS \
    "UPDATE entry SET checksum = sum_of(" SUMMED "), document_checksum = sum_of(uid, document)"

// Each step upgrades a file from the version before it; the version is the number of steps. Only
// append to the list: old files exist.
static const char *const migrations[] = {
    "CREATE TABLE entry ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,"
    " at TEXT NOT NULL, program TEXT, name TEXT, plan TEXT, key TEXT,"
    " model TEXT, method TEXT, stack TEXT, gpu TEXT, gpus INTEGER, context INTEGER, tokens REAL,"
    " tokens_per_second_p10 REAL, tokens_per_second_p50 REAL, tokens_per_second_p90 REAL,"
    " wall_hours_p10 REAL, wall_hours_p50 REAL, wall_hours_p90 REAL,"
    " gpu_hours_p10 REAL, gpu_hours_p50 REAL, gpu_hours_p90 REAL,"
    " actual_tokens_per_second REAL, actual_wall_hours REAL, actual_gpu_hours REAL,"
    " configuration TEXT, document TEXT);"
    "CREATE INDEX entry_kind_key ON entry (kind, key);",

    // For the prior of later plans: measured over roofline tokens/s.
    "ALTER TABLE entry ADD COLUMN roofline_tokens_per_second REAL;"
    "CREATE INDEX entry_stack ON entry (stack, gpu, method);",

    "ALTER TABLE entry ADD COLUMN checksum INTEGER;"
    "ALTER TABLE entry ADD COLUMN document_checksum INTEGER;" SET_SUMS,
};
enum { VERSION = sizeof migrations / sizeof *migrations };

struct ledger {
    struct arena arena;
    sqlite3 *database;
    struct ledger_options options;
    const char *path, *notice;
    size_t damaged; // entries that the last search left out
    dev_t device;   // of the open file
    ino_t inode;
};

// --- failures ----------------------------------------------------------------

// Whether the file must be renamed.
static bool is_damage(const struct ledger *l, int code)
{
    if (l->options.copied)
        return false;
    return (code & 0xFF) == SQLITE_CORRUPT || ((code & 0xFF) == SQLITE_NOTADB && !l->options.asked);
}

static enum err refused(const struct ledger *l)
{
    int code = l->database ? sqlite3_extended_errcode(l->database) : SQLITE_NOMEM;
    int number = l->database ? sqlite3_system_errno(l->database) : 0;
    const char *path = l->path, *reason = number ? strerror(number) : sqlite3_errmsg(l->database);
    switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fail(ERR_UNAVAILABLE,
                    "%s: another program kept the ledger locked for %g s; try again, or choose "
                    "another with --ledger",
                    path, l->options.wait_seconds);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return fail(ERR_INPUT,
                    "%s: is damaged, or not a ledger; gpuhours runs import copies what can be read "
                    "into another --ledger",
                    path);
    case SQLITE_FULL:
        return fail(ERR_INPUT, "%s: the disk is full; nothing was added to the ledger", path);
    case SQLITE_IOERR:
        return fail(ERR_INPUT, "%s: the ledger cannot be written: %s; nothing was added", path,
                    reason);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return fail(ERR_INPUT, "%s: the ledger is read-only; choose another with --ledger", path);
    case SQLITE_CANTOPEN:
        return fail(ERR_INPUT, "%s: the ledger cannot be opened: %s; choose another with --ledger",
                    path, reason);
    default: return fail(ERR_INPUT, "%s: SQLite reports: %s", path, sqlite3_errmsg(l->database));
    }
}

static enum err execute(struct ledger *l, const char *sql)
{
    return sqlite3_exec(l->database, sql, NULL, NULL, NULL) ? refused(l) : OK;
}

// --- opening -----------------------------------------------------------------

void ledger_path(const char **out, struct arena *arena, const char *asked)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    *out = asked;
    if (!asked && data && *data == '/') // the XDG specification ignores relative paths
        *out = text_format(arena, "%s/gpuhours/ledger.sqlite", data);
    else if (!asked && home && *home)
        *out = text_format(arena, "%s/.local/share/gpuhours/ledger.sqlite", home);
}

// A write-ahead log saves a wait for the disk, but its index is shared memory, which two machines
// do not share over a network file system. statfs(2) lists the numbers.
static bool is_shared_over_network(const char *path)
{
    static const long kinds[] = { 0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x0BD00BD0,
                                  0x47504653, 0x19830326, 0x00C36400, 0x65735546, 0x5346414F };
    struct statfs about; // NFS, SMB (3), Lustre, GPFS, BeeGFS, Ceph, FUSE, AFS
    if (statfs(path, &about))
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((long)about.f_type == kinds[i])
            return true;
    return false;
}

// sum_of(a, b, …): a checksum of their types and bytes.
static void sum_of(sqlite3_context *context, int count, sqlite3_value **values)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        int type = sqlite3_value_type(values[i]);
        double number = type == SQLITE_FLOAT ? sqlite3_value_double(values[i]) : 0;
        const char *bytes = type == SQLITE_FLOAT ? (const char *)&number
                                                 : (const char *)sqlite3_value_blob(values[i]);
        size_t size = type == SQLITE_FLOAT ? sizeof number : (size_t)sqlite3_value_bytes(values[i]);
        sum = checksum((struct text){ bytes ? bytes : "", bytes ? size : 0 }, sum + (uint64_t)type);
    }
    sqlite3_result_int64(context, (int64_t)sum);
}

static int add_functions(sqlite3 *database)
{
    return sqlite3_create_function(database, "sum_of", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
                                   sum_of, NULL, NULL);
}

static int read_number(struct ledger *l, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(l->database, sql, -1, &statement, NULL);
    if (!code && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        *out = sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static enum err refuse_foreign(const struct ledger *l)
{
    return fail(ERR_INPUT, "%s: is a database of another program; give another --ledger", l->path);
}

struct schema {
    int64_t version, tables, ours; // ours: tables named "entry"
};

static int read_schema(struct ledger *l, struct schema *out)
{
    int code = read_number(l, "PRAGMA user_version", &out->version);
    if (!code)
        code = read_number(l, "SELECT count(*) FROM sqlite_schema", &out->tables);
    if (!code)
        code = read_number(l,
                           "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND"
                           " name = 'entry'",
                           &out->ours);
    return code;
}

static enum err check_schema(const struct ledger *l, const struct schema *schema)
{
    if (schema->version > VERSION)
        return fail(ERR_UNAVAILABLE,
                    "%s: was written by a newer gpuhours (schema %lld, this one knows %d); update, "
                    "or choose another with --ledger",
                    l->path, (long long)schema->version, VERSION);
    bool is_foreign = schema->version < 0 || (schema->version ? !schema->ours : schema->tables > 0);
    return is_foreign ? refuse_foreign(l) : OK;
}

// Before anything is changed. One transaction: who creates the tables sets the version with them.
static enum err check_owner(struct ledger *l)
{
    struct schema schema = { 0 };
    int code = sqlite3_exec(l->database, "BEGIN", NULL, NULL, NULL);
    if (!code)
        code = read_schema(l, &schema);
    sqlite3_exec(l->database, "ROLLBACK", NULL, NULL, NULL);
    return code ? OK : check_schema(l, &schema); // busy, or no database: what follows says so
}

static enum err migrate(struct ledger *l)
{
    struct schema schema = { 0 };
    if (read_number(l, "PRAGMA user_version", &schema.version))
        return refused(l);
    if (schema.version == VERSION)
        return OK;
    TRY(execute(l, "BEGIN IMMEDIATE"));
    // Another process may have upgraded it while this one waited.
    enum err err = read_schema(l, &schema) ? refused(l) : check_schema(l, &schema);
    for (int64_t version = schema.version; !err && version < VERSION; version++)
        err = execute(l, migrations[version]);
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d; COMMIT", VERSION);
    if (!err)
        err = execute(l, sql);
    if (err)
        sqlite3_exec(l->database, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

static void note_file(struct ledger *l)
{
    struct stat about;
    if (stat(l->path, &about))
        return;
    l->device = about.st_dev;
    l->inode = about.st_ino;
}

// SQLite does not wait for others while the journal mode changes: it reports "busy" at once.
static enum err execute_patiently(struct ledger *l, const char *sql)
{
    double end = clock_seconds() + l->options.wait_seconds;
    int code = sqlite3_exec(l->database, sql, NULL, NULL, NULL);
    while ((code & 0xFF) == SQLITE_BUSY && clock_seconds() < end) {
        sqlite3_sleep(10);
        code = sqlite3_exec(l->database, sql, NULL, NULL, NULL);
    }
    return code ? refused(l) : OK;
}

static enum err open_file(struct ledger *l)
{
    file_make_folders(l->path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(l->path, &l->database, flags, NULL) || add_functions(l->database))
        return refused(l);
    sqlite3_busy_timeout(l->database, (int)(l->options.wait_seconds * 1000));
    note_file(l);
    TRY(check_owner(l));
    // Without a log, waiting for the disk protects against a crash of the machine.
    bool network = is_shared_over_network(l->path);
    TRY(execute_patiently(l, network ? "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL"
                                     : "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
    return migrate(l);
}

static const char *spell_uri(struct ledger *l, const char *query)
{
    struct out uri = { .arena = &l->arena };
    out_put(&uri, "file:");
    for (const char *c = l->path; *c; c++)
        out_put(&uri, strchr("?#%", *c) ? "%%%02X" : "%c", *c);
    out_put(&uri, "?%s", query);
    return out_string(&uri);
}

static int copy_pages(struct ledger *l, sqlite3 *source)
{
    int code = sqlite3_open_v2(":memory:", &l->database, SQLITE_OPEN_READWRITE, NULL);
    if (!code)
        code = add_functions(l->database);
    if (code)
        return code;
    sqlite3_backup *copy = sqlite3_backup_init(l->database, "main", source, "main");
    if (!copy)
        return sqlite3_errcode(l->database);
    sqlite3_backup_step(copy, -1);
    return sqlite3_backup_finish(copy);
}

// Copies the pages unchanged, also from a folder where no lock can be created.
static enum err open_copy(struct ledger *l)
{
    static const char *const ways[] = { "mode=ro", "mode=ro&immutable=1" };
    if (access(l->path, R_OK))
        return fail(ERR_INPUT, "%s: cannot be opened: %s", l->path, strerror(errno));
    enum err err = OK;
    for (int way = 0; way < 2; way++) {
        sqlite3 *source = NULL;
        int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
        sqlite3_close(l->database);
        l->database = NULL;
        int code = sqlite3_open_v2(spell_uri(l, ways[way]), &source, flags, NULL);
        sqlite3_busy_timeout(source, (int)(l->options.wait_seconds * 1000));
        if (!code)
            code = copy_pages(l, source);
        sqlite3_close(source);
        if (!code)
            return migrate(l);
        err = refused(l);
    }
    return err;
}

// --- a damaged file ----------------------------------------------------------

static bool is_still_there(const struct ledger *l)
{
    struct stat about;
    return !stat(l->path, &about) && about.st_dev == l->device && about.st_ino == l->inode;
}

static const char *folder_of(struct ledger *l)
{
    const char *slash = strrchr(l->path, '/');
    if (!slash)
        return ".";
    return slash == l->path ? "/" : arena_copy(&l->arena, l->path, (size_t)(slash - l->path));
}

// Renames the log too: it must never be applied to another file.
static enum err rename_parts(struct ledger *l)
{
    static const char *const parts[] = { "", "-wal", "-shm", "-journal" };
    const char *aside = l->path;
    for (int number = 1; !access(aside, F_OK); number++)
        aside = text_format(&l->arena, "%s.damaged-%d", l->path, number);
    for (int i = 0; i < 4; i++) {
        const char *from = text_format(&l->arena, "%s%s", l->path, parts[i]);
        if (rename(from, text_format(&l->arena, "%s%s", aside, parts[i])) &&
            (!i || errno != ENOENT))
            return fail(ERR_INPUT, "%s: is damaged and cannot be renamed: %s", l->path,
                        strerror(errno));
    }
    l->notice = text_format(&l->arena,
                            "%s was damaged: it was renamed to %s and a new ledger was created; "
                            "gpuhours runs import copies what can be read",
                            l->path, aside);
    return OK;
}

// Locks the folder meanwhile: of two processes that find the damage, one renames the file.
static enum err move_aside(struct ledger *l)
{
    int lock = open(folder_of(l), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0)
        flock(lock, LOCK_EX);
    sqlite3_close(l->database);
    l->database = NULL;
    enum err err = is_still_there(l) ? rename_parts(l) : OK;
    if (lock >= 0)
        close(lock);
    return err;
}

enum err ledger_open(struct ledger **out, const struct ledger_options *options)
{
    *out = NULL;
    if (folder_is(options->path))
        return fail(ERR_INPUT,
                    "%s: is a folder; give --ledger a file, which is made if there is none",
                    options->path);
    struct ledger *l = calloc(1, sizeof *l);
    if (!l)
        return fail(ERR_UNAVAILABLE, "%s: no memory left", options->path);
    l->options = *options;
    l->path = text_copy(&l->arena, text_of(options->path));
    enum err err = options->copied ? open_copy(l) : open_file(l);
    if (err && l->database && is_damage(l, sqlite3_errcode(l->database)))
        if (!(err = move_aside(l)))
            err = open_file(l);
    if (err)
        ledger_close(l);
    else
        *out = l;
    return err;
}

void ledger_close(struct ledger *ledger)
{
    if (!ledger)
        return;
    // Merging the log into the file waits for the disk twice, but a long log slows the next
    // opening: merges every twenty plans or so.
    enum { SHORT_LOG = 512 * 1024 };
    struct stat about;
    const char *log = text_format(&ledger->arena, "%s-wal", ledger->path);
    if (ledger->database && !stat(log, &about) && about.st_size < SHORT_LOG)
        sqlite3_db_config(ledger->database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(ledger->database);
    arena_release(&ledger->arena);
    free(ledger);
}

const char *ledger_notice(const struct ledger *ledger)
{
    return ledger->notice;
}

size_t ledger_damaged(const struct ledger *ledger)
{
    return ledger->damaged;
}

// --- writing -----------------------------------------------------------------

static bool is_id(const struct field *field)
{
    return !strcmp(field->name, "id");
}

static void compose_insert(struct out *sql, const struct field *fields)
{
    out_put(sql, "INSERT INTO entry (");
    int count = 0;
    for (const struct field *f = fields; f->name; f++)
        if (!is_id(f))
            out_put(sql, "%s%s", count++ ? ", " : "", f->name);
    out_put(sql, ") VALUES (");
    for (int i = 0; i < count; i++)
        out_put(sql, i ? ", ?" : "?");
    out_put(sql, ") ON CONFLICT (uid) DO UPDATE SET at = max(at, excluded.at), "
                 "name = coalesce(excluded.name, name) RETURNING id");
}

static void bind(sqlite3_stmt *statement, int at, const struct field *f, const void *entry)
{
    const char *member = (const char *)entry + f->offset;
    if (!field_known(f, entry))
        sqlite3_bind_null(statement, at);
    else if (f->kind == FIELD_TEXT || f->kind == FIELD_DATE)
        sqlite3_bind_text(statement, at, *(const char *const *)member, -1, SQLITE_STATIC);
    else if (f->kind == FIELD_CHOICE)
        sqlite3_bind_text(statement, at, f->choices[*(const int *)member], -1, SQLITE_STATIC);
    else if (f->kind == FIELD_COUNT)
        sqlite3_bind_int64(statement, at, *(const int64_t *)member);
    else if (f->kind == FIELD_FLAG)
        sqlite3_bind_int(statement, at, *(const bool *)member);
    else
        sqlite3_bind_double(statement, at, *(const double *)member);
}

static int insert_one(sqlite3_stmt *statement, sqlite3_stmt *set_sums, const struct field *fields,
                      void *entry)
{
    int at = 0;
    for (const struct field *f = fields; f->name; f++)
        if (!is_id(f))
            bind(statement, ++at, f, entry);
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW)
        return code;
    int64_t id = sqlite3_column_int64(statement, 0);
    for (const struct field *f = fields; f->name; f++)
        if (is_id(f))
            *(int64_t *)((char *)entry + f->offset) = id;
    code = sqlite3_step(statement);
    sqlite3_reset(statement);
    if (code != SQLITE_DONE)
        return code;
    sqlite3_bind_int64(set_sums, 1, id); // of what is stored: a column may convert what it is given
    code = sqlite3_step(set_sums);
    sqlite3_reset(set_sums);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int insert_all(struct ledger *l, const struct field *fields, char *entries, size_t size,
                      size_t count, size_t *added)
{
    struct arena arena = { 0 };
    struct out sql = { .arena = &arena };
    compose_insert(&sql, fields);
    int64_t before = 0, after = 0;
    sqlite3_stmt *statement = NULL, *set_sums = NULL;
    int code = sqlite3_exec(l->database, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (!code)
        code = sqlite3_prepare_v2(l->database, out_string(&sql), -1, &statement, NULL);
    if (!code)
        code = sqlite3_prepare_v2(l->database, SET_SUMS " WHERE id = ? AND checksum IS NULL", -1,
                                  &set_sums, NULL);
    if (!code && added)
        code = read_number(l, "SELECT count(*) FROM entry", &before);
    for (size_t i = 0; i < count && !code; i++)
        code = insert_one(statement, set_sums, fields, entries + i * size);
    sqlite3_finalize(statement);
    sqlite3_finalize(set_sums);
    if (!code && added)
        code = read_number(l, "SELECT count(*) FROM entry", &after);
    if (!code)
        code = sqlite3_exec(l->database, "COMMIT", NULL, NULL, NULL);
    if (added)
        *added = code ? 0 : (size_t)(after - before);
    arena_release(&arena);
    return code;
}

enum err ledger_add_all(struct ledger *ledger, const struct field *fields, void *entries,
                        size_t size, size_t count, size_t *added)
{
    int code = insert_all(ledger, fields, entries, size, count, added);
    if (is_damage(ledger, code)) {
        sqlite3_exec(ledger->database, "ROLLBACK", NULL, NULL, NULL);
        TRY(move_aside(ledger));
        TRY(open_file(ledger));
        code = insert_all(ledger, fields, entries, size, count, added);
    }
    enum err err = code ? refused(ledger) : OK;
    if (code)
        sqlite3_exec(ledger->database, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

enum err ledger_add(struct ledger *ledger, const struct field *fields, void *entry)
{
    return ledger_add_all(ledger, fields, entry, 0, 1, NULL);
}

enum err ledger_delete(struct ledger *ledger, int64_t id, bool *found)
{
    char sql[64];
    snprintf(sql, sizeof sql, "DELETE FROM entry WHERE id = %lld", (long long)id);
    TRY(execute(ledger, sql));
    *found = sqlite3_changes(ledger->database) > 0;
    return OK;
}

// --- reading -----------------------------------------------------------------

// The last column is whether what was read is what was written.
static void compose_select(struct out *sql, const struct field *fields)
{
    bool document = false;
    out_put(sql, "SELECT ");
    for (const struct field *f = fields; f->name; f++) {
        out_put(sql, "%s, ", f->name);
        document = document || !strcmp(f->name, "document");
    }
    out_put(sql, "coalesce(checksum = sum_of(" SUMMED ")%s, 1) FROM entry",
            document ? " AND document_checksum = sum_of(uid, document)" : "");
}

static bool is_whole(sqlite3_stmt *statement)
{
    return sqlite3_column_int(statement, sqlite3_column_count(statement) - 1);
}

static void take_choice(const struct field *f, char *member, const char *text)
{
    for (int i = 0; text && f->choices[i]; i++)
        if (!strcmp(text, f->choices[i]))
            *(int *)member = i;
}

static void take_row(sqlite3_stmt *statement, struct arena *arena, const struct field *fields,
                     void *row)
{
    field_clear(fields, row);
    int column = 0;
    for (const struct field *f = fields; f->name; f++, column++) {
        char *member = (char *)row + f->offset;
        if (sqlite3_column_type(statement, column) == SQLITE_NULL)
            continue;
        const char *text = (const char *)sqlite3_column_text(statement, column);
        if (f->kind == FIELD_TEXT || f->kind == FIELD_DATE)
            *(const char **)member = text ? text_copy(arena, text_of(text)) : NULL;
        else if (f->kind == FIELD_CHOICE)
            take_choice(f, member, text);
        else if (f->kind == FIELD_COUNT)
            *(int64_t *)member = sqlite3_column_int64(statement, column);
        else if (f->kind == FIELD_FLAG)
            *(bool *)member = sqlite3_column_int(statement, column);
        else
            *(double *)member = sqlite3_column_double(statement, column);
    }
}

struct rows {
    char *at;
    size_t size, count, room;
};

static void *new_row(struct rows *rows, struct arena *arena)
{
    rows->at = arena_room(arena, rows->at, rows->size, rows->count, &rows->room);
    return rows->at + rows->count++ * rows->size;
}

enum err ledger_find(struct ledger *ledger, struct arena *arena, const struct field *fields,
                     size_t size, const struct ledger_filter *filters, size_t most, void **out,
                     size_t *count)
{
    struct out sql = { .arena = arena };
    compose_select(&sql, fields);
    for (const struct ledger_filter *f = filters; f && f->column; f++)
        out_put(&sql, "%s %s %s ?", f == filters ? " WHERE" : " AND", f->column, f->compare);
    out_put(&sql, " ORDER BY at DESC, id DESC");
    if (most)
        out_put(&sql, " LIMIT %zu", most);
    sqlite3_stmt *statement = NULL;
    struct rows rows = { .size = size };
    int code = sqlite3_prepare_v2(ledger->database, out_string(&sql), -1, &statement, NULL);
    int at = 0;
    for (const struct ledger_filter *f = filters; !code && f && f->column; f++)
        code = sqlite3_bind_text(statement, ++at, f->value, -1, SQLITE_STATIC);
    ledger->damaged = 0;
    while (!code && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (is_whole(statement))
            take_row(statement, arena, fields, new_row(&rows, arena));
        else
            ledger->damaged++;
        code = SQLITE_OK;
    }
    enum err err = code == SQLITE_DONE ? OK : refused(ledger);
    sqlite3_finalize(statement);
    *out = rows.at;
    *count = rows.count;
    return err;
}

// The smallest id above that one.
static int next_id(sqlite3_stmt *statement, int64_t *id)
{
    sqlite3_bind_int64(statement, 1, *id);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *id = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return code;
}

struct salvage {
    sqlite3_stmt *row, *after; // of an id; the next id
    int64_t last, guesses;
    struct rows rows;
    size_t lost;
};

// Looks each id up by itself, so that a damaged page takes only its own rows. Where the next id
// cannot be found, it is guessed; the last one too is a number of a damaged file, so there are no
// more guesses than the file has room for rows.
static void salvage(struct salvage *s, struct arena *arena, const struct field *fields)
{
    int64_t id = 0;
    for (;;) {
        int code = next_id(s->after, &id);
        if (code == SQLITE_DONE || (code != SQLITE_ROW && (id >= s->last || !s->guesses--)))
            return;
        id += code != SQLITE_ROW;
        sqlite3_bind_int64(s->row, 1, id);
        code = sqlite3_step(s->row);
        if (code == SQLITE_ROW && is_whole(s->row))
            take_row(s->row, arena, fields, new_row(&s->rows, arena));
        else if (code != SQLITE_DONE)
            s->lost++;
        sqlite3_reset(s->row);
    }
}

static int prepare_salvage(struct salvage *s, struct ledger *l, struct arena *arena,
                           const struct field *fields)
{
    enum { SMALLEST_ROW = 64 }; // uid, kind and time, and a byte about each column
    const char *after = "SELECT id FROM entry NOT INDEXED WHERE id > ? ORDER BY id LIMIT 1";
    int64_t pages = 0, page_bytes = 0;
    struct out sql = { .arena = arena };
    compose_select(&sql, fields);
    out_put(&sql, " NOT INDEXED WHERE id = ?");
    int code = read_number(l, "SELECT seq FROM sqlite_sequence WHERE name = 'entry'", &s->last);
    if (!code)
        code = read_number(l, "PRAGMA page_count", &pages);
    if (!code)
        code = read_number(l, "PRAGMA page_size", &page_bytes);
    if (!code)
        code = sqlite3_prepare_v2(l->database, out_string(&sql), -1, &s->row, NULL);
    if (!code)
        code = sqlite3_prepare_v2(l->database, after, -1, &s->after, NULL);
    s->guesses = pages * page_bytes / SMALLEST_ROW;
    return code;
}

enum err ledger_salvage(struct ledger *ledger, struct arena *arena, const struct field *fields,
                        size_t size, void **out, size_t *count, size_t *lost)
{
    struct salvage s = { .rows.size = size };
    enum err err = prepare_salvage(&s, ledger, arena, fields) ? refused(ledger) : OK;
    if (!err)
        salvage(&s, arena, fields);
    sqlite3_finalize(s.row);
    sqlite3_finalize(s.after);
    *out = s.rows.at;
    *count = s.rows.count;
    *lost = s.lost;
    return err;
}
