// SPDX-License-Identifier: Apache-2.0
#include "core/trainers/tensorboard.h"

#include "host/file.h"
#include "test/test.h"

#include <string.h>

#define EVENTS "test/data/logs/events.out.tfevents.1741684442.host.1.0"

static void on_scalar(void *context, const struct tensorboard_scalar *scalar)
{
    out_put(context, "%.1f %lld %.*s %.6g\n", scalar->wall_seconds, (long long)scalar->step,
            TEXT_ARGS(scalar->tag), scalar->value);
}

TEST(tensorboard_checksums_are_masked_castagnoli)
{
    // RFC 3720, appendix B.4: 32 zero bytes give 8A9136AA; the usual check string gives E3069283.
    const char zeros[32] = { 0 };
    uint32_t crc = 0x8A9136AA;
    CHECK(tensorboard_checksum(zeros, 32) == (crc >> 15 | crc << 17) + 0xA282EAD8);
    crc = 0xE3069283;
    CHECK(tensorboard_checksum("123456789", 9) == (crc >> 15 | crc << 17) + 0xA282EAD8);
}

TEST(tensorboard_follows_a_growing_file)
{
    struct file file;
    CHECK(!file_open(&file, EVENTS));
    struct out whole = { .arena = &test_arena }, grown = { .arena = &test_arena };
    size_t used, done = 0;
    CHECK(!tensorboard_read(&used, file.text, "events", on_scalar, &whole));
    CHECK(used < file.text.size && file.text.size - used < 60); // the last record is cut
    CHECK(strstr(out_string(&whole), "1741684458.5 5 train/loss 1.95\n"));
    CHECK(strstr(out_string(&whole), "1741684466.0 10 train/loss 1.9\n")); // as a tensor
    CHECK(strstr(out_string(&whole), "1741684499.9 30 eval/loss 1.61\n"));
    for (size_t size = 0; size <= file.text.size; size++) {
        size_t more;
        struct text there = { file.text.at + done, size - done };
        CHECK(!tensorboard_read(&more, there, "events", on_scalar, &grown));
        done += more;
    }
    CHECK(done == used && text_equal(out_view(&whole), out_view(&grown)));
    file_close(&file);
}

TEST(tensorboard_says_where_a_file_is_damaged)
{
    struct file file;
    CHECK(!file_open(&file, EVENTS));
    char *copy = arena_copy(&test_arena, file.text.at, file.text.size);
    struct text text = { copy, file.text.size };
    struct out out = { .arena = &test_arena };
    size_t used;
    copy[400] ^= 1;
    CHECK(tensorboard_read(&used, text, "events", on_scalar, &out) == ERR_INPUT);
    CHECK(used > 200 && used <= 400 && strstr(error_text(), "events: "));
    CHECK(tensorboard_read(&used, TEXT("step,loss\n1,2.5\n"), "x.csv", on_scalar, &out) ==
          ERR_INPUT);
    CHECK(strstr(error_text(), "not a TensorBoard event file"));
    file_close(&file);
}
