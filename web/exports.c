// What the page may call: allocate, input, run, result. JSON in, JSON out, the documents of the
// command line.
//
//     at = allocate(size); … write the request there …
//     input(at, size); run(); text = result() … result() + result_size()

#include "core/plan.h"

#include <stdlib.h>

#define EXPORT(name) __attribute__((export_name(#name)))

char *allocate(size_t size);
void input(const char *at, size_t size);
int run(void);
const char *result(void);
size_t result_size(void);

static struct arena lasting, passing; // the catalogs; one request
static struct plan_data data;
static struct text request_text;
static struct out out;

EXPORT(allocate) char *allocate(size_t size)
{
    arena_release(&passing);
    out = (struct out){ 0 };
    return arena_alloc(&passing, size + 1);
}

EXPORT(input) void input(const char *at, size_t size)
{
    request_text = (struct text){ at, size };
}

static enum err make(void)
{
    if (!lasting.block)
        TRY(plan_open(&data, &lasting, NULL, 0));
    struct plan_request request;
    TRY(plan_request_read(&request, &passing, request_text, "request"));
    struct plan *plan = ARENA_NEW(&passing, struct plan, 1);
    TRY(plan_make(plan, &passing, &data, &request));
    plan_write(plan, &passing, &out);
    return plan->fits ? OK : ERR_ANSWER;
}

// The command line's exit code; of a failure the result says why.
EXPORT(run) int run(void)
{
    out = (struct out){ .arena = &passing };
    enum err err = make();
    if (err && err != ERR_ANSWER) {
        struct json_writer w = { .out = &out };
        json_open(&w, NULL, '{');
        json_put_string(&w, "kind", "error");
        json_put_count(&w, "version", 1);
        json_put_count(&w, "code", err);
        json_put_string(&w, "text", error_text());
        json_close(&w, '}');
    }
    return (int)err;
}

EXPORT(result) const char *result(void)
{
    return out_string(&out);
}

EXPORT(result_size) size_t result_size(void)
{
    return out.size;
}
