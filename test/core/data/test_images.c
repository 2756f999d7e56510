// SPDX-License-Identifier: Apache-2.0
// Images of rows: where rows say that they are, and how their tokens add to those of the text.

#include "core/data/example.h"

#include "test/test.h"

#include <string.h>

// A row with ' for ".
static struct text as_json(const char *row)
{
    char *copy = (char *)text_copy(&test_arena, text_of(row));
    for (char *at = copy; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    return text_of(copy);
}

static struct record_sequence *read_row(const char *row)
{
    struct record_schema schema;
    struct record *record = ARENA_NEW(&test_arena, struct record, 1);
    struct text text = as_json(row);
    CHECK(!record_detect(&schema, &test_arena, &text, 1, RECORD_AUTO, (struct text){ 0 }));
    CHECK(!record_read(record, &schema, &test_arena, text));
    return &record->sequences[0];
}

#define CHAT "'messages': [{'role': 'user', 'content': "
#define SAID "}, {'role': 'assistant', 'content': 'a'}]}"

TEST(images_of_rows_are_found_in_columns_and_in_parts)
{
    static const struct {
        const char *row;
        enum record_image_kind kinds[3];
        size_t count;
        const char *source; // of the first
    } rows[] = {
        { "{'images': ['a.png', 'b/c.jpg'], " CHAT "'<image><image>q'" SAID,
          { RECORD_IMAGE_FILE, RECORD_IMAGE_FILE },
          2,
          "a.png" },
        { "{'image': 'x.webp', " CHAT "'<image>q'" SAID, { RECORD_IMAGE_FILE }, 1, "x.webp" },
        { "{'images': [{'bytes': null, 'path': 'p.png'}], " CHAT "[{'type': 'image'}]" SAID,
          { RECORD_IMAGE_FILE },
          1,
          "p.png" },
        { "{'images': [{'bytes': '\\\\x89PNG\\\\x0D', 'path': 'p.png'}], " CHAT "'q'" SAID,
          { RECORD_IMAGE_ESCAPED },
          1,
          "\\x89PNG\\x0D" },
        { "{" CHAT "[{'type': 'image', 'image': 'file://y.png'}, {'type': 'image'}]" SAID,
          { RECORD_IMAGE_FILE, RECORD_IMAGE_UNKNOWN },
          2,
          "y.png" },
        { "{" CHAT "[{'type': 'image_url', 'image_url': {'url': 'https://e.org/a.png'}}]" SAID,
          { RECORD_IMAGE_REMOTE },
          1,
          "https://e.org/a.png" },
        { "{" CHAT "[{'type': 'image_url', 'image_url': 'data:image/png;base64,iVBO'}]" SAID,
          { RECORD_IMAGE_BASE64 },
          1,
          "iVBO" },
        { "{'images': '[\\\"a.png\\\", \\\"b.png\\\"]', " CHAT "'q'" SAID,
          { RECORD_IMAGE_FILE, RECORD_IMAGE_FILE },
          2,
          "a.png" },
        { "{'images': [], " CHAT "'q'" SAID, { 0 }, 0, NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct record_sequence *read = read_row(rows[i].row);
        CHECK(read->image_count == rows[i].count && !read->has_other);
        CHECK(read->has_media == (rows[i].count > 0));
        for (size_t k = 0; k < read->image_count && k < rows[i].count; k++)
            CHECK(read->images[k].kind == rows[i].kinds[k]);
        if (rows[i].source && read->image_count)
            CHECK(text_is(read->images[0].source, rows[i].source));
    }
    CHECK(read_row("{'videos': ['v.mp4'], " CHAT "'q'" SAID)->has_other);
}

// --- counting ----------------------------------------------------------------

static enum err no_file(struct image_size *out, struct arena *arena, const char *folder,
                        struct text path)
{
    (void)arena, (void)folder;
    *out = (struct image_size){ 448, 448 };
    return text_is(path, "there.png") ? OK : fail(ERR_INPUT, "No such file or directory");
}

static enum err count(struct example *out, const char *row, const char *family,
                      const char *image_size)
{
    struct example_rule rule = { 0 };
    struct chat_format format = { 0 };
    struct example_worker worker;
    struct chat_text text;
    CHECK(!example_rule_estimate(&rule, &test_arena, &format, "qwen2.5-vl-7b"));
    CHECK(!example_rule_format(&rule, &test_arena, &format));
    if (family)
        CHECK(!vision_find(&rule.vision, &test_arena, family));
    if (image_size)
        CHECK(!image_read_words(&rule.image_size, text_of(image_size)));
    rule.read_file = no_file;
    *out = (struct example){ 0 };
    CHECK(!example_worker_init(&worker, &rule));
    CHECK(!chat_render(&worker.chat, &text, read_row(row)));
    example_count(&worker, out, &text);
    enum err err = example_images(&worker, out, &text);
    example_worker_release(&worker);
    return err;
}

TEST(image_tokens_stand_in_place_of_what_the_text_has_for_them)
{
    struct example plain, marked, parts, twice;
    CHECK(!count(&plain, "{" CHAT "'what?'" SAID, "qwen2.5-vl", NULL));
    CHECK(!count(&marked, "{'images': ['there.png'], " CHAT "'<image>what?'" SAID, "qwen2.5-vl",
                 NULL));
    CHECK(!count(&parts,
                 "{'images': ['there.png'], " CHAT
                 "[{'type': 'image'}, {'type': 'text', 'text': 'what?'}]" SAID,
                 "qwen2.5-vl", NULL));
    CHECK(!count(&twice, "{'images': ['there.png', 'there.png'], " CHAT "'<image>what?'" SAID,
                 "qwen2.5-vl", NULL));
    CHECK(plain.images.images == 0 && marked.images.images == 1 && twice.images.images == 2);
    CHECK(marked.images.tokens == 16 * 16 + 2); // 448 / 28
    CHECK(marked.tokens - plain.tokens == 258 && parts.tokens - plain.tokens == 258);
    CHECK(twice.tokens - plain.tokens == 2 * 258);
    CHECK(marked.labelled == plain.labelled); // images carry no loss
    CHECK(!marked.has_media && plain.hash != marked.hash);
}

TEST(images_are_text_alone_for_a_model_that_does_not_read_them)
{
    struct example example;
    CHECK(!count(&example, "{'images': ['there.png'], " CHAT "'<image>what?'" SAID, NULL, NULL));
    CHECK(example.images.images == 0 && example.has_media);
}

TEST(images_of_unknown_size_are_refused_unless_a_size_is_given_or_does_not_matter)
{
    static const char *const rows[] = {
        "{'images': ['gone.png'], " CHAT "'<image>what?'" SAID,
        "{" CHAT "'<image>what?'" SAID,
        "{" CHAT "[{'type': 'image_url', 'image_url': {'url': 'https://e.org/a.png'}}]" SAID,
    };
    struct example example;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(count(&example, rows[i], "qwen2.5-vl", NULL) == ERR_INPUT);
        CHECK(strstr(error_text(), "the size of an image is not known"));
        CHECK(strstr(error_text(), "--image-size"));
        CHECK(!count(&example, rows[i], "qwen2.5-vl", "448x448") && example.images.tokens == 258);
        CHECK(!count(&example, rows[i], "gemma-3", NULL) && example.images.tokens == 260);
    }
}
