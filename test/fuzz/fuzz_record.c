// SPDX-License-Identifier: Apache-2.0
// Any bytes as a row of each format, rendered with and without a template under each labelling.

#include "core/data/chat.h"
#include "core/data/chat_format.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(json)

static void render(const struct record *record, const struct template *template, int labels,
                   bool adapts)
{
    struct chat chat;
    struct chat_text text;
    struct chat_settings settings = { .template = template,
                                      .eos = TEXT("</s>"),
                                      .raw_pairs = adapts,
                                      .adapts = adapts,
                                      .labels = (enum chat_labels)labels };
    if (chat_init(&chat, &settings))
        return;
    for (int i = 0; i < record->count; i++) {
        if (chat_render(&chat, &text, &record->sequences[i]))
            continue;
        size_t at = 0;
        for (size_t k = 0; k < text.span_count; k++) {
            if (text.spans[k].start < at || text.spans[k].end <= text.spans[k].start ||
                text.spans[k].end > text.text.size)
                abort();
            at = text.spans[k].end;
        }
    }
    chat_release(&chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct text row = { (const char *)data, size };
    struct chat_format format;
    const struct template *blocks, *bare;
    chat_format_built_in(&format, "chatml");
    if (template_compile(&blocks, &arena, format.source, "chatml") ||
        template_compile(&bare, &arena,
                         TEXT("{% for m in messages %}{{ m.role }}{{ m.content }}\n{% endfor %}"),
                         "bare"))
        abort();
    for (int wanted = RECORD_AUTO; wanted < RECORD_FORMATS; wanted++) {
        struct record_schema schema;
        struct record record;
        if (record_detect(&schema, &arena, &row, 1, (enum record_format)wanted, TEXT("")) ||
            record_read(&record, &schema, &arena, row))
            continue;
        for (int labels = CHAT_ALL; labels <= CHAT_COMPLETION; labels++) {
            render(&record, blocks, labels, false);
            render(&record, blocks, labels, true);
            render(&record, bare, labels, false);
            render(&record, bare, labels, true);
            render(&record, NULL, labels, true);
        }
    }
    arena_release(&arena);
    return 0;
}
