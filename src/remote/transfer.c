// SPDX-License-Identifier: Apache-2.0
// Loads libcurl at run time and makes requests with it, on connections that are kept.

#include "remote/transfer.h"

#include "remote/listing.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- libcurl's interface, as far as it is needed; its numbers never change under this soname ---

enum {
    OPT_LOW_SPEED_LIMIT = 19,
    OPT_LOW_SPEED_TIME = 20,
    OPT_FOLLOWLOCATION = 52,
    OPT_MAXREDIRS = 68,
    OPT_HTTP_VERSION = 84,
    OPT_BUFFERSIZE = 98,
    OPT_NOSIGNAL = 99,
    OPT_CONNECTTIMEOUT = 78,
    OPT_PROTOCOLS = 181,
    OPT_REDIR_PROTOCOLS = 182,
    OPT_PATH_AS_IS = 234,
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_USERAGENT = 10018,
    OPT_HTTPHEADER = 10023,
    OPT_HEADERDATA = 10029,
    OPT_WRITEFUNCTION = 20011,
    OPT_HEADERFUNCTION = 20079,
    PROTOCOL_HTTP = 1,
    PROTOCOL_HTTPS = 2,
    VERSION_1_1 = 2,
    GLOBAL_ALL = 3,
};

static struct {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    int (*easy_setopt)(void *handle, int option, ...);
    int (*easy_perform)(void *handle);
    void (*easy_reset)(void *handle);
    void (*easy_cleanup)(void *handle);
    const char *(*easy_strerror)(int code);
    void *(*slist_append)(void *list, const char *line);
    void (*slist_free_all)(void *list);
} curl;

static const struct {
    const char *symbol;
    void *slot;
} symbols[] = {
    { "curl_global_init", &curl.global_init },       { "curl_easy_init", &curl.easy_init },
    { "curl_easy_setopt", &curl.easy_setopt },       { "curl_easy_perform", &curl.easy_perform },
    { "curl_easy_reset", &curl.easy_reset },         { "curl_easy_cleanup", &curl.easy_cleanup },
    { "curl_easy_strerror", &curl.easy_strerror },   { "curl_slist_append", &curl.slist_append },
    { "curl_slist_free_all", &curl.slist_free_all },
};

static bool loaded;

static void load(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].symbol);
        if (!symbol)
            return;
        memcpy(symbols[i].slot, &symbol, sizeof symbol); // ISO C has no cast to a function
    }
    loaded = library && !curl.global_init(GLOBAL_ALL);
}

static enum err need_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return loaded ? OK
                  : fail(ERR_UNAVAILABLE,
                         "addresses are read with libcurl, which is not installed; on Debian: "
                         "apt-get install libcurl4");
}

// --- connections that wait for their next request ----------------------------

enum { MOST_IDLE = 16 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *idle[MOST_IDLE];
static int idle_count;

static void *take_handle(void)
{
    pthread_mutex_lock(&lock);
    void *handle = idle_count ? idle[--idle_count] : NULL;
    pthread_mutex_unlock(&lock);
    return handle ? handle : curl.easy_init();
}

static void give_handle(void *handle)
{
    curl.easy_reset(handle); // keeps its connections
    pthread_mutex_lock(&lock);
    bool kept = idle_count < MOST_IDLE;
    if (kept)
        idle[idle_count++] = handle;
    pthread_mutex_unlock(&lock);
    if (!kept)
        curl.easy_cleanup(handle);
}

// --- the answer --------------------------------------------------------------

enum { ERROR_BYTES = 4096 };

struct exchange {
    const struct transfer_request *request;
    struct transfer_answer *answer;
    int64_t content_length;
    char error[ERROR_BYTES]; // the beginning of the document that explains a failure
    size_t error_size;
};

static void copy_word(char *out, size_t room, struct text word)
{
    bool good = word.size < room;
    for (size_t i = 0; good && i < word.size; i++)
        good = word.at[i] > ' ' && word.at[i] < 127;
    if (good)
        memcpy(out, word.at, word.size);
    out[good ? word.size : 0] = 0;
}

static bool is_name(struct text name, const char *wanted)
{
    size_t i = 0;
    for (; i < name.size && wanted[i]; i++)
        if (tolower((unsigned char)name.at[i]) != wanted[i])
            return false;
    return i == name.size && !wanted[i];
}

static int64_t whole_number(struct text digits)
{
    int64_t value = 0;
    if (!digits.size || digits.size > 18)
        return -1;
    for (size_t i = 0; i < digits.size; i++) {
        if (!isdigit((unsigned char)digits.at[i]))
            return -1;
        value = value * 10 + (digits.at[i] - '0');
    }
    return value;
}

// "bytes 0-99/1234", "bytes */1234"
static void read_range(struct transfer_answer *a, struct text value)
{
    struct text word, first;
    if (value.size < 6 || memcmp(value.at, "bytes ", 6))
        return;
    value = (struct text){ value.at + 6, value.size - 6 };
    if (!text_next(&value, '/', &word))
        return;
    a->total_bytes = whole_number(value);
    if (text_next(&word, '-', &first))
        a->range_first = whole_number(first);
}

static void read_header(struct exchange *x, struct text name, struct text value)
{
    struct transfer_answer *a = x->answer;
    if (is_name(name, "content-range"))
        read_range(a, value);
    else if (is_name(name, "content-length"))
        x->content_length = whole_number(value);
    else if (is_name(name, "x-amz-bucket-region"))
        copy_word(a->region, sizeof a->region, value);
    else if (is_name(name, "retry-after"))
        a->wait_seconds = (double)whole_number(value);
    else if (is_name(name, "etag") && value.size > 2 && value.at[0] == '"')
        copy_word(a->etag, sizeof a->etag, (struct text){ value.at + 1, value.size - 2 });
}

// A status line begins an answer: of a redirection, then of where it leads.
static void begin_answer(struct exchange *x, struct text line)
{
    struct text word, rest = line;
    text_next(&rest, ' ', &word);
    text_next(&rest, ' ', &word);
    int64_t status = whole_number(word);
    *x->answer = (struct transfer_answer){ .status = status > 0 && status < 1000 ? (int)status : 0,
                                           .range_first = -1,
                                           .total_bytes = -1 };
    x->content_length = -1;
    x->error_size = 0;
}

static size_t on_header(char *at, size_t one, size_t size, void *context)
{
    (void)one;
    struct text line = text_trim((struct text){ at, size }), name;
    if (line.size > 5 && !memcmp(line.at, "HTTP/", 5))
        begin_answer(context, line);
    else if (text_next(&line, ':', &name))
        read_header(context, name, text_trim(line));
    return size;
}

static size_t on_body(char *at, size_t one, size_t size, void *context)
{
    (void)one;
    struct exchange *x = context;
    if (x->answer->status == 200 || x->answer->status == 206) {
        x->answer->stopped = !x->request->take(x->request->context, at, size);
        return x->answer->stopped ? 0 : size;
    }
    size_t room = ERROR_BYTES - x->error_size, part = size < room ? size : room;
    memcpy(x->error + x->error_size, at, part);
    x->error_size += part;
    return size;
}

// --- a request ---------------------------------------------------------------

// libcurl's codes: of what is wrong for good, in contrast to what may pass.
static bool may_pass(int code)
{
    static const int for_good[] = { 1,  2,  3,  4,  27, 43, 47, 51, 53,
                                    54, 58, 59, 60, 66, 77, 83, 90, 91 };
    for (size_t i = 0; i < sizeof for_good / sizeof *for_good; i++)
        if (code == for_good[i])
            return false;
    return true;
}

static void set_options(void *handle, struct exchange *x, void *headers)
{
    const struct transfer_request *r = x->request;
    bool https = !strncmp(r->url, "https://", 8);
    curl.easy_setopt(handle, OPT_URL, r->url);
    curl.easy_setopt(handle, OPT_PATH_AS_IS, 1L); // a key may hold "/../"
    curl.easy_setopt(handle, OPT_NOSIGNAL, 1L);   // threads
    curl.easy_setopt(handle, OPT_USERAGENT, "gpuhours");
    curl.easy_setopt(handle, OPT_HTTP_VERSION, (long)VERSION_1_1);
    curl.easy_setopt(handle, OPT_PROTOCOLS, (long)(PROTOCOL_HTTP | PROTOCOL_HTTPS));
    curl.easy_setopt(handle, OPT_REDIR_PROTOCOLS,
                     (long)(https ? PROTOCOL_HTTPS : PROTOCOL_HTTP | PROTOCOL_HTTPS));
    curl.easy_setopt(handle, OPT_FOLLOWLOCATION, (long)r->may_redirect);
    curl.easy_setopt(handle, OPT_MAXREDIRS, 5L);
    curl.easy_setopt(handle, OPT_CONNECTTIMEOUT, 15L);
    curl.easy_setopt(handle, OPT_LOW_SPEED_LIMIT, 100L); // bytes per second, for half a minute
    curl.easy_setopt(handle, OPT_LOW_SPEED_TIME, 30L);
    curl.easy_setopt(handle, OPT_BUFFERSIZE, 256L * 1024);
    curl.easy_setopt(handle, OPT_HTTPHEADER, headers);
    curl.easy_setopt(handle, OPT_HEADERFUNCTION, on_header);
    curl.easy_setopt(handle, OPT_HEADERDATA, x);
    curl.easy_setopt(handle, OPT_WRITEFUNCTION, on_body);
    curl.easy_setopt(handle, OPT_WRITEDATA, x);
}

static void judge(struct exchange *x, int code)
{
    struct transfer_answer *a = x->answer;
    static const int passing[] = { 408, 425, 429, 500, 502, 503, 504 };
    if (a->range_first < 0 && a->status == 200)
        a->total_bytes = x->content_length;
    if (code && !a->stopped) {
        a->broken = curl.easy_strerror(code);
        a->may_try_again = may_pass(code);
        return;
    }
    listing_error_code(a->code, sizeof a->code, (struct text){ x->error, x->error_size });
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        a->may_try_again |= a->status == passing[i];
    a->may_try_again |= !strcmp(a->code, "RequestTimeout") || !strcmp(a->code, "SlowDown");
}

enum err transfer_run(const struct transfer_request *request, struct transfer_answer *answer)
{
    TRY(need_library());
    struct exchange x = { .request = request, .answer = answer };
    *answer = (struct transfer_answer){ .range_first = -1, .total_bytes = -1 };
    void *handle = take_handle(), *headers = NULL;
    for (size_t i = 0; handle && i < request->header_count; i++) {
        void *more = curl.slist_append(headers, request->headers[i]);
        if (!more) {
            give_handle(handle);
            handle = NULL;
        } else {
            headers = more;
        }
    }
    if (handle) {
        set_options(handle, &x, headers);
        judge(&x, curl.easy_perform(handle));
        give_handle(handle);
    }
    curl.slist_free_all(headers);
    return handle ? OK : fail(ERR_MEMORY, "out of memory: libcurl could not be started");
}
