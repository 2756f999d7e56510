// SPDX-License-Identifier: Apache-2.0
#include "core/step/layout.h"
#include "test/test.h"

#include <string.h>

static struct layout read(const char *text, int64_t gpus)
{
    struct layout layout = { 0 };
    CHECK(!layout_read(&layout, text_of(text), gpus));
    return layout;
}

TEST(layout_reads_what_people_write)
{
    struct layout l = read("tp4pp4vp5 dp2", 32);
    CHECK(l.tensor == 4 && l.pipeline == 4 && l.interleave == 5 && l.data == 2 && l.zero == 0);
    l = read("fsdp8 tp8 pp8 interleaved", 512);
    CHECK(l.pipeline == 8 && l.interleave == 2 && l.data == 8);
    l = read("fsdp8 (FULL_SHARD)", 8);
    CHECK(l.data == 8 && l.zero == 3);
    l = read("zero3 dp8 + cpu optimizer offload", 8);
    CHECK(l.data == 8 && l.zero == 3 && l.offload_optimizer && !l.offload_weights);
    l = read("fsdp2 + cpu offload", 2);
    CHECK(l.zero == 3 && l.offload_weights && l.offload_optimizer); // as FSDP's option does
    l = read("dp4, ZeRO offload", 4);
    CHECK(!l.offload_weights && l.offload_optimizer);
    l = read("fsdp2 offload:weights offload:activations", 2);
    CHECK(l.offload_weights && l.offload_activations && !l.offload_optimizer);
    l = read("single shard:weights offload:opt-m", 1);
    CHECK(!l.offload_weights && l.offload_optimizer);
    l = read("fsdp8 sync_each_batch", 8);
    CHECK(l.zero == 3 && l.sync_each_batch);
    l = read("zero3 dp2, ulysses sp4", 8);
    CHECK(l.context == 4 && l.data == 2);
    l = read("device_map over 2", 2);
    CHECK(l.split && l.pipeline == 2 && l.data == 1);
    l = read("dp4 zero1 offload:opt-m+opt-v+master+residual", 4);
    CHECK(l.zero == 1 && l.data == 4 && l.offload_optimizer && l.offload_activations);
    l = read("ddp", 8);
    CHECK(l.data == 8 && l.zero == 0);
    l = read("single", 1);
    CHECK(layout_gpus(&l) == 1);
    l = read("hsdp8", 32);
    CHECK(l.zero == 3 && layout_shards(&l) == 8 && l.data == 32);
}

TEST(layout_of_one_gpu_is_refused_for_several)
{
    struct layout l;
    CHECK(layout_read(&l, TEXT("single"), 8) == ERR_USAGE);
    CHECK(strstr(error_text(), "--parallel single is one GPU, but there are 8"));
    CHECK(!layout_read(&l, TEXT("single zero3"), 1) && l.zero == 3);
    CHECK(!strcmp(layout_spell(&l, &test_arena), "single zero3"));
}

TEST(layout_spelled_reads_back_equal)
{
    static const struct {
        const char *text;
        int64_t gpus;
    } cases[] = { { "tp4 pp2 dp4", 32 },
                  { "fsdp8", 8 },
                  { "zero2 dp8", 8 },
                  { "cp2 fsdp16", 32 },
                  { "hsdp8 fsdp32", 32 },
                  { "ddp8", 8 },
                  { "tp8 ddp4", 32 },
                  { "fsdp8 sync_each_batch", 8 },
                  { "fsdp8 offload:optimizer offload:weights", 8 },
                  { "single offload:activations", 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layout a = read(cases[i].text, cases[i].gpus);
        struct layout b = read(layout_spell(&a, &test_arena), cases[i].gpus);
        CHECK(a.data == b.data && a.tensor == b.tensor && a.pipeline == b.pipeline);
        CHECK(a.context == b.context && a.zero == b.zero && a.shard_group == b.shard_group);
        CHECK(a.offload_weights == b.offload_weights && a.sync_each_batch == b.sync_each_batch);
        CHECK(a.offload_optimizer == b.offload_optimizer &&
              a.offload_activations == b.offload_activations);
    }
}

TEST(layout_refuses_ranks_that_the_gpus_do_not_make)
{
    struct layout layout;
    CHECK(layout_read(&layout, TEXT("fsdp8"), 4) == ERR_USAGE);
    CHECK(strstr(error_text(), "names 8 data-parallel ranks, but 4 GPUs make 4"));
}

TEST(layout_refuses_gpus_that_do_not_divide)
{
    struct layout layout;
    CHECK(layout_read(&layout, TEXT("tp4pp3"), 8) == ERR_USAGE);
    CHECK(strstr(error_text(), "multiple of 12 GPUs"));
    CHECK(layout_read(&layout, TEXT("zero9"), 8) == ERR_USAGE);
}
