// SPDX-License-Identifier: Apache-2.0
// Finds, lists and reads objects: signs each request, tries again, and says what an answer means.

#include "remote/object.h"

#include "remote/address.h"
#include "remote/credentials.h"
#include "remote/listing.h"
#include "remote/signature.h"
#include "remote/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PAGE_BYTES = 16 << 20, MOST_OBJECTS = 1000000, MOST_HEADERS = 8 };

struct object_store {
    enum address_kind kind;
    const char *origin; // "https://host:port"; "" on the web, where the path is the whole URL
    const char *host;   // as the Host header has it
    const char *root;   // path of the bucket, escaped, without a last slash
    const char *region;
    struct credentials keys;
};

// --- where a bucket is -------------------------------------------------------

static enum err set_endpoint(struct object_store *s, struct arena *arena, const char *endpoint,
                             const char *bucket)
{
    struct text host, path;
    if (!address_split(endpoint, &host, &path))
        return fail(ERR_INPUT,
                    "the endpoint of the object store is \"%.80s\"; give "
                    "http://host:port or https://host",
                    endpoint);
    s->host = text_copy(arena, host);
    s->origin = text_copy(arena, (struct text){ endpoint, (size_t)(path.at - endpoint) });
    s->root = text_format(arena, "%.*s/%s", TEXT_ARGS(path), bucket);
    return OK;
}

// Amazon's own hosts. A dot in the bucket would not match the certificate of bucket.s3….
static void set_amazon(struct object_store *s, struct arena *arena, const char *bucket)
{
    bool dotted = strchr(bucket, '.');
    s->host = text_format(arena, "%s%ss3.%s.amazonaws.com%s", dotted ? "" : bucket,
                          dotted ? "" : ".", s->region, strncmp(s->region, "cn-", 3) ? "" : ".cn");
    s->origin = text_format(arena, "https://%s", s->host);
    s->root = dotted ? text_format(arena, "/%s", bucket) : "";
}

static enum err open_store(const struct object_store **out, struct arena *arena,
                           const struct address *address)
{
    struct object_store *s = ARENA_NEW(arena, struct object_store, 1);
    *s = (struct object_store){ .kind = address->kind, .origin = "", .host = "", .root = "" };
    *out = s;
    if (s->kind == ADDRESS_WEB)
        return OK;
    TRY(credentials_find(&s->keys, arena));
    const char *bucket = text_copy(arena, address->bucket),
               *emulator = getenv("STORAGE_EMULATOR_HOST");
    if (s->kind == ADDRESS_GS) {
        s->region = "auto";
        return set_endpoint(
            s, arena, emulator && *emulator ? emulator : "https://storage.googleapis.com", bucket);
    }
    s->region = s->keys.region ? s->keys.region : "us-east-1";
    if (s->keys.endpoint)
        return set_endpoint(s, arena, s->keys.endpoint, bucket);
    set_amazon(s, arena, bucket);
    return OK;
}

// --- one request -------------------------------------------------------------

struct call { // what is asked for
    const char *path, *query;
    int64_t first, last; // the range; last < 0: the whole
    bool (*take)(void *context, const char *at, size_t size);
    void *context;
};

static size_t sign(const struct object_store *s, const struct call *c, struct arena *arena,
                   const char **lines)
{
    char stamp[SIGNATURE_STAMP_BYTES];
    signature_stamp(stamp, time(NULL));
    struct signature_header headers[] = { { "host", s->host },
                                          { "x-amz-content-sha256", SIGNATURE_EMPTY },
                                          { "x-amz-date", stamp },
                                          { "x-amz-security-token", s->keys.token } };
    struct signature_request request = { .method = "GET",
                                         .path = c->path,
                                         .query = c->query,
                                         .headers = headers,
                                         .header_count = s->keys.token ? 4 : 3,
                                         .body_hash = SIGNATURE_EMPTY,
                                         .region = s->region,
                                         .service = "s3",
                                         .stamp = stamp };
    struct out line = { .arena = arena };
    size_t count = 0;
    for (size_t i = 0; i < request.header_count; i++)
        lines[count++] = text_format(arena, "%s: %s", headers[i].name, headers[i].value);
    out_put(&line, "Authorization: ");
    signature_put(&line, &request, s->keys.key_id, s->keys.secret);
    lines[count++] = out_string(&line);
    return count;
}

static enum err run(const struct object_store *s, const struct call *c,
                    struct transfer_answer *answer)
{
    struct arena scratch = { 0 };
    const char *lines[MOST_HEADERS];
    size_t count = s->keys.key_id ? sign(s, c, &scratch, lines) : 0;
    if (c->last >= 0)
        lines[count++] = text_format(&scratch, "Range: bytes=%lld-%lld", (long long)c->first,
                                     (long long)c->last);
    struct transfer_request request = {
        .url =
            text_format(&scratch, "%s%s%s%s", s->origin, c->path, *c->query ? "?" : "", c->query),
        .headers = lines,
        .header_count = count,
        .may_redirect = s->kind == ADDRESS_WEB,
        .take = c->take,
        .context = c->context,
    };
    enum err err = transfer_run(&request, answer);
    arena_release(&scratch);
    return err;
}

// --- what an answer means ----------------------------------------------------

static enum err refused(const struct object_store *s, const struct transfer_answer *a,
                        const char *name)
{
    static const struct {
        const char *code, *meaning;
    } known[] = {
        { "InvalidAccessKeyId", "the store does not know this access key" },
        { "SignatureDoesNotMatch", "the secret key does not belong to the access key" },
        { "ExpiredToken", "the session token has expired; get a new one" },
        { "InvalidToken", "the session token is not valid" },
        { "RequestTimeTooSkewed", "the clock of this machine is wrong by more than 15 minutes" },
        { "NoSuchBucket", "there is no such bucket" },
        { "InvalidObjectState", "the object is in an archive; restore it first" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(a->code, known[i].code))
            return fail(ERR_INPUT, "%s: %s", name, known[i].meaning);
    if (*a->region && s->region && strcmp(a->region, s->region))
        return fail(ERR_INPUT, "%s: the bucket lies in %s, not in %s; set AWS_REGION=%s", name,
                    a->region, s->region, a->region);
    if (a->status == 404)
        return fail(ERR_INPUT, "%s: there is no such %s", name,
                    s->kind == ADDRESS_WEB ? "file on the server" : "object");
    if ((a->status == 401 || a->status == 403) && s->kind == ADDRESS_WEB)
        return fail(ERR_INPUT, "%s: the server refuses access (%d)", name, a->status);
    if (a->status == 401 || a->status == 403)
        return s->keys.key_id
                   ? fail(ERR_INPUT, "%s: access is denied: these keys may not read it%s", name,
                          s->kind == ADDRESS_GS ? " (gs:// takes HMAC keys of Google as "
                                                  "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
                                                : "")
                   : fail(ERR_INPUT,
                          "%s: access is denied, and no keys were found; set AWS_ACCESS_KEY_ID and "
                          "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
                          name);
    return fail(ERR_INPUT, "%s: the server answers %d%s%s", name, a->status, *a->code ? " " : "",
                a->code);
}

static enum err gave_up(const struct transfer_answer *a, const char *name, int attempts)
{
    if (a->broken)
        return fail(ERR_UNAVAILABLE, "%s: %s%s (attempts: %d)", name,
                    a->status ? "the transfer broke off: " : "the server cannot be reached: ",
                    a->broken, attempts);
    return fail(ERR_UNAVAILABLE, "%s: the server answers %d%s%s (attempts: %d)", name, a->status,
                *a->code ? " " : "", a->code, attempts);
}

// --- trying again ------------------------------------------------------------

static int most_attempts(void)
{
    const char *value = getenv("AWS_MAX_ATTEMPTS");
    int most = value ? (int)strtol(value, NULL, 10) : 0;
    return most > 0 && most <= 100 ? most : 8;
}

// Half of the pause is random, so that many readers do not come back together.
static void wait_before(int attempt, double asked_seconds, const atomic_bool *cancel)
{
    struct timespec now, slice = { .tv_nsec = 50000000 };
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = 0.1 * (double)(1 << (attempt < 7 ? attempt : 7));
    seconds *= 0.5 + 0.5 * (double)(now.tv_nsec / 1000 % 1000) / 1000;
    if (asked_seconds > seconds)
        seconds = asked_seconds < 60 ? asked_seconds : 60;
    for (; seconds > 0 && !(cancel && atomic_load(cancel)); seconds -= 0.05) {
        if (seconds < 0.05)
            slice.tv_nsec = (long)(1e9 * seconds);
        nanosleep(&slice, NULL);
    }
}

struct reading { // of a range, over several attempts
    const struct object_range *range;
    int64_t done; // bytes that take() got
    int64_t skip; // bytes at the start of the answer that it has already
    bool stopped;
};

static bool take_rest(void *context, const char *at, size_t size)
{
    struct reading *r = context;
    const struct object_range *range = r->range;
    if (range->cancel && atomic_load(range->cancel))
        return false;
    size_t skipped = (int64_t)size < r->skip ? size : (size_t)r->skip;
    r->skip -= (int64_t)skipped;
    at += skipped;
    size -= skipped;
    if (range->size >= 0 && (int64_t)size > range->size - r->done)
        size = (size_t)(range->size - r->done);
    if (size && !range->take(range->context, at, size)) {
        r->stopped = true;
        return false;
    }
    r->done += (int64_t)size;
    return range->size < 0 || r->done < range->size;
}

static enum err changed(const struct object *o)
{
    return fail(ERR_INPUT, "%s: changed while it was read; read it again when it is written whole",
                o->name);
}

// Whether the answer is of the object that was found, and of the range that was asked for.
static enum err check_answer(const struct object *o, const struct transfer_answer *a,
                             int64_t asked_first)
{
    if (a->status != 200 && a->status != 206)
        return OK;
    if ((*o->etag && *a->etag && strcmp(o->etag, a->etag)) ||
        (o->size_bytes >= 0 && a->total_bytes >= 0 && o->size_bytes != a->total_bytes))
        return changed(o);
    if (a->status == 206 && a->range_first != asked_first)
        return fail(ERR_INPUT, "%s: the server answers with another range than it was asked for",
                    o->name);
    if (a->status == 200 && asked_first > 0 && o->has_ranges)
        return fail(ERR_INPUT,
                    "%s: the server ignores ranges of bytes, without which large files are not "
                    "read; copy it to a disk first",
                    o->name);
    return OK;
}

// A guard in front of take(): an answer that is not of this object must not reach it.
struct guard {
    const struct object *object;
    const struct transfer_answer *answer;
    struct reading *reading;
    int64_t first;
    bool begun, wrong;
};

static bool take_checked(void *context, const char *at, size_t size)
{
    struct guard *g = context;
    if (!g->begun)
        g->wrong = check_answer(g->object, g->answer, g->first) != OK;
    g->begun = true;
    return !g->wrong && take_rest(g->reading, at, size);
}

// One attempt at what is left. Sets *again if the next one may succeed.
static enum err attempt(const struct object *o, struct reading *r, struct transfer_answer *answer,
                        bool *again)
{
    const struct object_range *range = r->range;
    bool parts = o->has_ranges && range->size >= 0;
    struct guard guard = { .object = o, .answer = answer, .reading = r };
    guard.first = parts ? range->first + r->done : 0;
    r->skip = parts ? 0 : range->first + r->done;
    struct call call = { .path = o->path,
                         .query = "",
                         .first = guard.first,
                         .last = parts ? range->first + range->size - 1 : -1,
                         .take = take_checked,
                         .context = &guard };
    *again = false;
    TRY(run(o->store, &call, answer));
    if (guard.wrong)
        return check_answer(o, answer, guard.first);
    bool good = answer->status == 200 || answer->status == 206;
    bool whole = range->size < 0 ? !answer->broken : r->done == range->size;
    if (r->stopped || (good && whole) || (range->cancel && atomic_load(range->cancel)))
        return OK;
    if (good && !answer->broken) { // it ended early and said so: the connection is fine
        answer->broken = "the answer is shorter than the object";
        answer->may_try_again = true;
    }
    *again = answer->may_try_again;
    return *again           ? OK
           : answer->broken ? gave_up(answer, o->name, 1)
                            : refused(o->store, answer, o->name);
}

enum err object_get(const struct object *o, const struct object_range *range)
{
    struct reading r = { .range = range };
    int most = most_attempts();
    if (!range->size)
        return OK;
    for (int tries = 1;; tries++) {
        struct transfer_answer answer;
        int64_t before = r.done;
        bool again;
        TRY(attempt(o, &r, &answer, &again));
        if (!again)
            return OK;
        if (r.done > before)
            tries = 1;
        if (tries >= most)
            return gave_up(&answer, o->name, tries);
        wait_before(tries - 1, answer.wait_seconds, range->cancel);
    }
}

struct copy {
    char *at;
};

static bool take_copy(void *context, const char *at, size_t size)
{
    struct copy *copy = context;
    memcpy(copy->at, at, size);
    copy->at += size;
    return true;
}

enum err object_read(const struct object *o, int64_t first, size_t size, char *out)
{
    struct copy copy = { out };
    return object_get(
        o, &(struct object_range){
               .first = first, .size = (int64_t)size, .take = take_copy, .context = &copy });
}

// --- finding -----------------------------------------------------------------

// A byte keeps the connection; a whole file, from a server that knows no ranges, is not waited for.
static bool take_nothing(void *context, const char *at, size_t size)
{
    (void)at, (void)size;
    const struct transfer_answer *answer = context;
    return answer->status == 206;
}

// Runs a call until it has an answer that will not change.
static enum err run_until_answered(const struct object_store *s, const struct call *call,
                                   struct transfer_answer *answer, const char *name)
{
    int most = most_attempts();
    for (int tries = 1;; tries++) {
        TRY(run(s, call, answer));
        if (answer->stopped || (!answer->broken && !answer->may_try_again))
            return OK;
        if (tries >= most || !answer->may_try_again)
            return gave_up(answer, name, tries);
        wait_before(tries - 1, answer->wait_seconds, NULL);
    }
}

// Asks for the first byte: the answer has the size, the tag, and whether ranges work.
static enum err probe(struct object *o, struct arena *arena)
{
    struct transfer_answer a;
    struct call call = { .path = o->path, .query = "", .take = take_nothing, .context = &a };
    TRY(run_until_answered(o->store, &call, &a, o->name));
    bool empty = a.status == 416; // even the first byte is past the end
    o->is_absent = a.status == 404 && strcmp(a.code, "NoSuchBucket");
    if (a.status != 200 && a.status != 206 && !empty)
        return refused(o->store, &a, o->name);
    o->size_bytes = empty ? 0 : a.total_bytes;
    o->has_ranges = a.status == 206 && a.total_bytes >= 0;
    o->etag = text_copy(arena, text_of(a.etag));
    return OK;
}

static const char *path_of(const struct object_store *s, struct arena *arena, struct text key)
{
    struct out path = { .arena = arena };
    out_put(&path, "%s/", s->root);
    address_escape(&path, key, true);
    return out_string(&path);
}

enum err object_find(struct object *out, struct arena *arena, const char *word)
{
    struct address address;
    TRY(address_read(&address, word));
    *out = (struct object){ .name = address_name(arena, word), .etag = "" };
    TRY(open_store(&out->store, arena, &address));
    if (address.kind == ADDRESS_WEB) {
        struct out url = { .arena = arena };
        address_put_web(&url, word);
        out->path = out_string(&url);
    } else {
        out->path = path_of(out->store, arena, address.key);
    }
    return probe(out, arena);
}

// --- listing -----------------------------------------------------------------

struct page {
    struct out text;
    bool too_long;
};

static bool take_page(void *context, const char *at, size_t size)
{
    struct page *page = context;
    page->too_long = page->text.size + size > MOST_PAGE_BYTES;
    if (!page->too_long)
        out_bytes(&page->text, at, size);
    return !page->too_long;
}

static enum err no_list(const struct object_store *s, const struct transfer_answer *a,
                        const char *name)
{
    if (a->status == 404 && strcmp(a->code, "NoSuchBucket"))
        return fail(ERR_INPUT,
                    "%s: the server has no list of this bucket (404); check the "
                    "bucket and the endpoint",
                    name);
    return refused(s, a, name);
}

static enum err get_page(struct listing *out, struct arena *arena, const struct object_store *s,
                         const char *query, const char *name)
{
    struct arena scratch = { 0 };
    struct page page = { .text = { .arena = &scratch } };
    struct call call = { .path = *s->root ? s->root : "/",
                         .query = query,
                         .last = -1,
                         .take = take_page,
                         .context = &page };
    struct transfer_answer a = { 0 };
    int most = most_attempts();
    enum err err = OK;
    for (int tries = 1; !err; tries++) {
        page.text.size = 0;
        err = run(s, &call, &a);
        if (err || (a.status == 200 && !a.broken) || page.too_long || !a.may_try_again)
            break;
        if (tries >= most)
            err = gave_up(&a, name, tries);
        else
            wait_before(tries - 1, a.wait_seconds, NULL);
    }
    if (!err && page.too_long)
        err = fail(ERR_INPUT, "%s: a page of the list has over %d bytes", name, MOST_PAGE_BYTES);
    if (!err && a.status != 200)
        err = a.broken ? gave_up(&a, name, 1) : no_list(s, &a, name);
    if (!err && (err = listing_read(out, arena, out_view(&page.text))))
        err = error_prefix(err, "%s: ", name);
    arena_release(&scratch);
    return err;
}

static void add(struct object_list *list, size_t *room, struct arena *arena, struct object object)
{
    list->objects = arena_room(arena, list->objects, sizeof *list->objects, list->count, room);
    list->objects[list->count++] = object;
}

enum err object_list(struct object_list *out, struct arena *arena, const char *word,
                     const char *name)
{
    struct address address;
    const struct object_store *store;
    *out = (struct object_list){ 0 };
    TRY(address_read(&address, word));
    TRY(open_store(&store, arena, &address));
    struct listing page = { .next = "" };
    size_t room = 0;
    do {
        struct out query = { .arena = arena };
        if (*page.next) {
            out_put(&query, "continuation-token=");
            address_escape(&query, text_of(page.next), false);
            out_put(&query, "&");
        }
        out_put(&query, "list-type=2&prefix=");
        address_escape(&query, address.key, false);
        TRY(get_page(&page, arena, store, out_string(&query), name));
        for (size_t i = 0; i < page.count; i++) {
            struct listing_object *entry = &page.objects[i];
            add(out, &room, arena,
                (struct object){ .name = text_format(arena, "%s://%.*s/%s",
                                                     store->kind == ADDRESS_GS ? "gs" : "s3",
                                                     TEXT_ARGS(address.bucket), entry->key),
                                 .path = path_of(store, arena, text_of(entry->key)),
                                 .store = store,
                                 .size_bytes = entry->size_bytes,
                                 .etag = entry->etag,
                                 .has_ranges = true });
        }
        if (out->count > MOST_OBJECTS)
            return fail(ERR_INPUT,
                        "%s: over %d objects begin with this; give a longer prefix, or several",
                        name, MOST_OBJECTS);
    } while (page.is_truncated);
    return OK;
}
