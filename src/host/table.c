// SPDX-License-Identifier: Apache-2.0
// Loads DuckDB at run time and reads Parquet, Arrow and remote files through it.

#include "host/table.h"

#include "host/arrow.h"
#include "host/inputs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// --- DuckDB's C interface, as far as it is needed ----------------------------

struct duckdb_result { // only the library looks inside
    uint64_t hidden[6];
};

union duckdb_string { // a string in a vector: short ones are stored in place
    struct {
        uint32_t size;
        char at[12];
    } here;
    struct {
        uint32_t size;
        char begins[4];
        const char *at;
    } there;
};

static struct {
    int (*open)(const char *path, void **database);
    void (*close)(void **database);
    int (*connect)(void *database, void **connection);
    void (*disconnect)(void **connection);
    int (*query)(void *connection, const char *sql, struct duckdb_result *result);
    int (*prepare)(void *connection, const char *sql, void **statement);
    const char *(*prepare_error)(void *statement);
    void (*destroy_prepare)(void **statement);
    int (*pending_prepared_streaming)(void *statement, void **pending);
    const char *(*pending_error)(void *pending);
    int (*execute_pending)(void *pending, struct duckdb_result *result);
    void (*destroy_pending)(void **pending);
    const char *(*result_error)(struct duckdb_result *result);
    void (*destroy_result)(struct duckdb_result *result);
    void *(*fetch_chunk)(struct duckdb_result result);
    uint64_t (*data_chunk_get_size)(void *chunk);
    void *(*data_chunk_get_vector)(void *chunk, uint64_t column);
    void (*destroy_data_chunk)(void **chunk);
    void *(*vector_get_data)(void *vector);
    uint64_t *(*vector_get_validity)(void *vector);
} duckdb;

static const struct {
    const char *symbol;
    void *slot;
} symbols[] = {
    { "duckdb_open", &duckdb.open },
    { "duckdb_close", &duckdb.close },
    { "duckdb_connect", &duckdb.connect },
    { "duckdb_disconnect", &duckdb.disconnect },
    { "duckdb_query", &duckdb.query },
    { "duckdb_prepare", &duckdb.prepare },
    { "duckdb_prepare_error", &duckdb.prepare_error },
    { "duckdb_destroy_prepare", &duckdb.destroy_prepare },
    { "duckdb_pending_prepared_streaming", &duckdb.pending_prepared_streaming },
    { "duckdb_pending_error", &duckdb.pending_error },
    { "duckdb_execute_pending", &duckdb.execute_pending },
    { "duckdb_destroy_pending", &duckdb.destroy_pending },
    { "duckdb_result_error", &duckdb.result_error },
    { "duckdb_destroy_result", &duckdb.destroy_result },
    { "duckdb_fetch_chunk", &duckdb.fetch_chunk },
    { "duckdb_data_chunk_get_size", &duckdb.data_chunk_get_size },
    { "duckdb_data_chunk_get_vector", &duckdb.data_chunk_get_vector },
    { "duckdb_destroy_data_chunk", &duckdb.destroy_data_chunk },
    { "duckdb_vector_get_data", &duckdb.vector_get_data },
    { "duckdb_vector_get_validity", &duckdb.vector_get_validity },
};

// --- finding the library -----------------------------------------------------

#if defined __aarch64__
#define BINDING "node_modules/@duckdb/node-bindings-linux-arm64"
#else
#define BINDING "node_modules/@duckdb/node-bindings-linux-x64"
#endif

// Only root and we may change it: otherwise somebody else could run code with our rights.
static bool is_ours(const char *path)
{
    struct stat about;
    return !stat(path, &about) && (about.st_uid == geteuid() || !about.st_uid) &&
           !(about.st_mode & S_IWOTH);
}

// The library itself and every folder from `folder` down to it must be ours.
static void *load_from(const char *folder, const char *below)
{
    char path[4096];
    int size = snprintf(path, sizeof path, "%s%slibduckdb.so", folder, below);
    if (size < 0 || (size_t)size >= sizeof path || access(path, R_OK) || !is_ours(path))
        return NULL;
    for (size_t end = (size_t)size; end > 0 && end + 1 >= strlen(folder); end--) {
        if (path[end] != '/')
            continue;
        path[end] = 0;
        bool good = is_ours(end ? path : "/");
        path[end] = '/';
        if (!good)
            return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

// The folder duckdb next to the program, where "make duckdb" puts it; not in folders above.
static void *load_beside_program(void)
{
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    while (size > 0 && path[size - 1] != '/')
        size--;
    if (size <= 0)
        return NULL;
    path[size] = 0;
    return load_from(path, "duckdb/" BINDING "/");
}

static void *find_library(void)
{
    const char *given = getenv("GPUHOURS_DUCKDB"), *home = getenv("HOME");
    if (given && *given) {
        char path[4096];
        snprintf(path, sizeof path, "%s/libduckdb.so", given);
        return dlopen(access(path, R_OK) ? given : path, RTLD_NOW | RTLD_LOCAL);
    }
    void *library = load_beside_program();
    if (!library && home)
        library = load_from(home, "/.local/share/gpuhours/");
    return library ? library : dlopen("libduckdb.so", RTLD_NOW | RTLD_LOCAL);
}

static bool loaded;

static void load(void)
{
    void *library = find_library();
    for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].symbol);
        if (!symbol)
            return;
        memcpy(symbols[i].slot, &symbol, sizeof symbol); // ISO C has no cast to a function
    }
    loaded = library;
}

static enum err need_library(const char *path)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (loaded)
        return OK;
    return fail(ERR_UNAVAILABLE,
                "%s: Parquet and remote files need DuckDB's library, which was not found; "
                "\"make duckdb\" installs it, or GPUHOURS_DUCKDB names the file libduckdb.so",
                path);
}

// --- a table -----------------------------------------------------------------

struct table {
    const char *path;
    struct arrow *arrow; // a local Arrow file, which needs no library; NULL if not
    void *database, *connection, *statement, *pending, *chunk;
    struct duckdb_result result;
    bool has_result;
    const union duckdb_string *rows; // of the chunk
    const uint64_t *valid;           // a bit a row; NULL: all are
    uint64_t row, row_count;
};

static bool ends_with(const char *name, const char *ending)
{
    size_t size = strlen(name), tail = strlen(ending);
    return size > tail && !strcmp(name + size - tail, ending);
}

static bool is_arrow(const char *path, struct text head)
{
    return ends_with(path, ".arrow") || ends_with(path, ".feather") ||
           (head.size >= 6 && !memcmp(head.at, "ARROW1", 6));
}

bool table_is_for(const char *path, struct text head)
{
    bool parquet = head.size >= 4 && !memcmp(head.at, "PAR1", 4);
    return is_arrow(path, head) || parquet || ends_with(path, ".parquet");
}

static enum err refused(const struct table *t, enum err code, const char *why)
{
    struct text line = { 0 }, rest = text_of(why ? why : "unknown reason");
    text_next(&rest, '\n', &line);
    return fail(code, "%s: DuckDB reports: %.*s", t->path, TEXT_ARGS(line));
}

static enum err run(struct table *t, const char *sql)
{
    struct duckdb_result result = { 0 };
    enum err err = OK;
    if (duckdb.query(t->connection, sql, &result))
        err = refused(t, ERR_UNAVAILABLE, duckdb.result_error(&result));
    duckdb.destroy_result(&result);
    return err;
}

// Loads an extension that the library does not have built in, fetching it the first time.
static enum err need_extension(struct table *t, const char *name, const char *install)
{
    char load_sql[64];
    snprintf(load_sql, sizeof load_sql, "LOAD %s", name);
    if (!run(t, load_sql))
        return OK;
    TRY(run(t, install));
    return run(t, load_sql);
}

void table_put_path(struct out *sql, const char *path)
{
    bool exact = !access(path, F_OK);
    for (const char *c = path; *c; c++) {
        if (exact && strchr("[*?", *c))
            out_put(sql, "[%c]", *c);
        else
            out_put(sql, "%s%c", *c == '\'' ? "'" : "", *c);
    }
}

// The query that yields each row as JSON text.
static const char *compose(struct arena *arena, const char *path, bool arrow)
{
    struct out sql = { .arena = arena };
    bool raw_json = !arrow && (ends_with(path, ".jsonl") || ends_with(path, ".json") ||
                               ends_with(path, ".ndjson") || ends_with(path, ".jsonl.gz") ||
                               ends_with(path, ".json.gz") || ends_with(path, ".jsonl.zst"));
    bool csv = ends_with(path, ".csv") || ends_with(path, ".tsv") || ends_with(path, ".csv.gz");
    out_put(&sql, "SELECT %s FROM %s('", raw_json ? "json" : "to_json(t)",
            raw_json ? "read_json_objects"
            : arrow  ? "read_arrow"
            : csv    ? "read_csv"
                     : "read_parquet");
    table_put_path(&sql, path);
    out_put(&sql, "') AS t");
    return out_string(&sql);
}

static enum err start(struct table *t, const char *sql)
{
    if (duckdb.prepare(t->connection, sql, &t->statement))
        return refused(t, ERR_INPUT, duckdb.prepare_error(t->statement));
    if (duckdb.pending_prepared_streaming(t->statement, &t->pending))
        return refused(t, ERR_INPUT, duckdb.pending_error(t->pending));
    int failed = duckdb.execute_pending(t->pending, &t->result);
    t->has_result = true;
    return failed ? refused(t, ERR_INPUT, duckdb.result_error(&t->result)) : OK;
}

static enum err open_with_library(struct table *t, struct arena *arena)
{
    bool arrow = is_arrow(t->path, (struct text){ 0 });
    TRY(need_library(t->path));
    if (duckdb.open(NULL, &t->database) || duckdb.connect(t->database, &t->connection))
        return fail(ERR_UNAVAILABLE, "%s: DuckDB could not be started", t->path);
    run(t, "SET enable_external_file_cache = false"); // each byte is read once; older ones lack it
    if (arrow)
        TRY(need_extension(t, "nanoarrow", "INSTALL nanoarrow FROM community"));
    return start(t, compose(arena, t->path, arrow));
}

enum err table_open(struct table **out, const char *path, const struct object *object,
                    struct text head)
{
    *out = NULL;
    struct table *t = calloc(1, sizeof *t);
    if (!t)
        return fail(ERR_UNAVAILABLE, "%s: out of memory", path);
    t->path = path;
    struct arena arena = { 0 };
    enum err err =
        is_arrow(path, head) ? arrow_open(&t->arrow, path, object) : open_with_library(t, &arena);
    arena_release(&arena);
    if (err)
        table_close(t);
    else
        *out = t;
    return err;
}

static void drop_chunk(struct table *t)
{
    if (t->chunk)
        duckdb.destroy_data_chunk(&t->chunk);
    t->chunk = NULL;
    t->row = t->row_count = 0;
}

enum err table_next(struct table *t, struct text *row)
{
    if (t->arrow)
        return arrow_next(t->arrow, row);
    *row = (struct text){ 0 };
    while (t->row == t->row_count) {
        drop_chunk(t);
        t->chunk = duckdb.fetch_chunk(t->result);
        if (!t->chunk) {
            const char *why = duckdb.result_error(&t->result);
            return why && *why ? refused(t, ERR_INPUT, why) : OK;
        }
        void *vector = duckdb.data_chunk_get_vector(t->chunk, 0);
        t->rows = duckdb.vector_get_data(vector);
        t->valid = duckdb.vector_get_validity(vector);
        t->row_count = duckdb.data_chunk_get_size(t->chunk);
    }
    uint64_t i = t->row++;
    if (t->valid && !(t->valid[i / 64] >> i % 64 & 1)) {
        *row = TEXT("null");
        return OK;
    }
    const union duckdb_string *string = &t->rows[i];
    bool here = string->here.size <= sizeof string->here.at;
    *row = (struct text){ here ? string->here.at : string->there.at, string->here.size };
    return OK;
}

void table_close(struct table *t)
{
    if (!t)
        return;
    arrow_close(t->arrow);
    drop_chunk(t);
    if (t->has_result)
        duckdb.destroy_result(&t->result);
    if (t->pending)
        duckdb.destroy_pending(&t->pending);
    if (t->statement)
        duckdb.destroy_prepare(&t->statement);
    if (t->connection)
        duckdb.disconnect(&t->connection);
    if (t->database)
        duckdb.close(&t->database);
    free(t);
}
