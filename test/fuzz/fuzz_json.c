// SPDX-License-Identifier: Apache-2.0
// Any bytes as JSON: the tree and the stream agree on what is JSON, and what was read can be
// written and read again.

#include "base/json.h"
#include "test/fuzz/mutate.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(json)

static void must(bool holds, const char *claim)
{
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", claim);
    abort();
}

static void write_again(struct json_writer *w, const char *key, const struct json *value)
{
    bool object = value->kind == JSON_OBJECT;
    switch (value->kind) {
    case JSON_NONE:
    case JSON_NULL: json_put_string(w, key, NULL); break;
    case JSON_BOOL: json_put_bool(w, key, value->flag); break;
    case JSON_NUMBER: json_put_number(w, key, value->number); break;
    case JSON_STRING: json_put_text(w, key, value->string); break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        json_open(w, key, object ? '{' : '[');
        for (size_t i = 0; i < value->count; i++)
            if (object)
                write_again(w, text_copy(w->out->arena, value->items[2 * i].string),
                            &value->items[2 * i + 1]);
            else
                write_again(w, NULL, &value->items[i]);
        json_close(w, object ? '}' : ']');
    }
}

static bool equal(const struct json *a, const struct json *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case JSON_BOOL: return a->flag == b->flag;
    case JSON_NUMBER: return a->number == b->number;
    case JSON_STRING: return text_equal(a->string, b->string);
    case JSON_ARRAY:
    case JSON_OBJECT: return a->count == b->count;
    default: return true;
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct text in = { (const char *)data, size };
    struct json tree, again;
    enum err err = json_read(&tree, &arena, in, "fuzz");
    struct json_reader reader = json_reader(in);
    struct text skipped = json_skip(&reader);
    must(skipped.at >= in.at && skipped.at + skipped.size <= in.at + in.size,
         "the skipped is inside");
    enum err skip_err = json_end(&reader, "fuzz");
    must(err || !skip_err || (size >= 3 && data[0] == 0xEF), "what can be read can be skipped");
    if (!err) {
        struct out out = { .arena = &arena };
        struct json_writer w = { .out = &out, .compact = size % 2 };
        write_again(&w, NULL, &tree);
        must(!json_read(&again, &arena, out_view(&out), "again"), "what was written can be read");
        must(equal(&tree, &again), "and is the same");
    }
    arena_release(&arena);
    return 0;
}
