// SPDX-License-Identifier: Apache-2.0
#include "base/attention_workspace.h"
#include "test/test.h"

static const int64_t MIB = 1 << 20;
static const int64_t H200 = (int64_t)143771 << 20, H100 = (int64_t)81559 << 20;

// Llama 3.1 8B: 32 query heads share 8 key/value heads of 128.
static struct attention_shape of_8b(int64_t rows, int64_t width)
{
    return (struct attention_shape){ rows * width, width, 32, 8, 128, false, false };
}

TEST(attention_workspace_counts_lengths_as_powers_of_two_from_128_on)
{
    CHECK(attention_length(1) == 128 && attention_length(128) == 128);
    CHECK(attention_length(129) == 256 && attention_length(4096) == 4096);
    CHECK(attention_length(4097) == 8192);
}

TEST(attention_workspace_of_a_document_is_scores_sums_and_shared_gradients)
{
    struct attention_shape shared = of_8b(1, 4096), own = { 4096, 4096, 32, 32, 128, false, false };
    CHECK(attention_document_bytes(&shared, 8, 4096) ==
          32LL * 4096 * (2 * 4096 + 4 * 128 + 4)); // bf16 scores, fp32 keys, an fp32 sum
    CHECK(attention_document_bytes(&own, 32, 4096) == 32LL * 4096 * (2 * 4096 + 4));
    CHECK(attention_document_bytes(&shared, 2, 4096) * 4 ==
          attention_document_bytes(&shared, 8, 4096));
}

TEST(attention_workspace_has_room_for_four_documents_within_a_32nd_of_a_hopper_card)
{
    struct attention_shape one = of_8b(1, 4096), many = of_8b(16, 4096);
    int64_t document = attention_document_bytes(&one, 8, 4096) + MIB;
    int64_t most = attention_room_most(H200, true);
    CHECK(most == H200 / 32);
    CHECK(attention_room(&one, most) == document); // no more than the micro-batch needs
    CHECK(attention_room(&many, most) == 4 * document);
    CHECK(attention_room(&many, attention_room_most(H100, true)) == 2 * document);
}

TEST(attention_workspace_has_512_mib_for_short_documents)
{
    struct attention_shape few = of_8b(8, 128), many = of_8b(4096, 128);
    int64_t document = attention_document_bytes(&few, 8, 128) + MIB;
    CHECK(attention_room(&few, H200 / 32) == 8 * document);
    CHECK(attention_room(&many, H200 / 32) == 512 * MIB);
}

TEST(attention_workspace_takes_fewer_heads_of_long_documents)
{
    // 16k tokens: all heads need 16.3 GiB of the 4.4 that there are, two key/value heads 4.1.
    struct attention_shape shape = of_8b(1, 16384);
    CHECK(attention_part(&shape, 16384, H200 / 32) == 16384);
    CHECK(attention_heads(&shape, 16384, 16384, H200 / 32) == 2);
    CHECK(attention_room(&shape, H200 / 32) == attention_document_bytes(&shape, 2, 16384) + MIB);
}

TEST(attention_workspace_gives_the_smallest_group_of_heads_twice_the_room)
{
    // 32k tokens: four query heads that share a key/value head need 8.1 GiB.
    struct attention_shape shape = of_8b(1, 32768);
    CHECK(attention_heads(&shape, 32768, 32768, H200 / 32) == 0);
    CHECK(attention_room(&shape, H200 / 32) == attention_document_bytes(&shape, 1, 32768) + MIB);
    CHECK(attention_part(&shape, 32768, attention_room(&shape, H200 / 32)) == 32768);
}

TEST(attention_workspace_cuts_documents_of_which_no_heads_fit)
{
    struct attention_shape shape = of_8b(1, 131072);
    CHECK(attention_part(&shape, 131072, H200 / 32) == 16384);
    CHECK(attention_heads(&shape, 131072, 16384, H200 / 32) == 1);
    // Sums in fp32 of four heads' queries, and of one head's keys and values, for all tokens.
    CHECK(attention_sums_bytes(&shape, 1, 131072) == 6LL * 128 * 131072 * 4);
    int64_t room = attention_room(&shape, H200 / 32);
    CHECK(room == attention_document_bytes(&shape, 1, 16384) +
                      attention_sums_bytes(&shape, 1, 131072) + MIB);
    CHECK(attention_part(&shape, 131072, room) == 16384);
    CHECK(attention_part(&shape, 131072, H200 / 64) == 8192);
    CHECK(attention_part(&shape, 131072, MIB) == 0);
}

TEST(attention_workspace_in_any_order_grows_with_the_length_not_with_its_square)
{
    struct attention_shape ordered = of_8b(1, 16384), any = of_8b(1, 16384), longer;
    any.any_order = true;
    CHECK(8 * attention_document_bytes(&any, 8, 16384) <
          attention_document_bytes(&ordered, 8, 16384));
    longer = of_8b(1, 131072), longer.any_order = true;
    CHECK(attention_document_bytes(&longer, 8, 131072) ==
          8 * attention_document_bytes(&any, 8, 16384));
    CHECK(attention_heads(&longer, 131072, 131072, H200 / 32) == 4);
}

TEST(attention_workspace_is_for_hopper_and_for_shapes_that_cudnn_has)
{
    struct attention_shape shape = of_8b(4, 4096);
    CHECK(attention_room(&shape, attention_room_most(H200, false)) == MIB);
    CHECK(attention_has_plan(0, 4096, 128) && attention_has_plan(4096, 4096, 256));
    CHECK(!attention_has_plan(4095, 4096, 128)); // a window
    CHECK(!attention_has_plan(0, 4096, 264) && !attention_has_plan(0, 4096, 100));
}

TEST(attention_workspace_of_our_own_kernel_grows_with_the_tokens)
{
    struct attention_shape shape = of_8b(4, 4096);
    int64_t block =
        32 * (64 * 130 * 4 + 4); // of 32 heads: a gradient, two numbers a row, a counter
    shape.own_kernel = true;
    CHECK(attention_own_bytes(256, 32) == 256 * block + MIB);
    CHECK(attention_room(&shape, H200 / 32) == (256 + 128) * block + MIB);
    shape.own_kernel = false;
    CHECK(attention_room(&shape, H200 / 32) > 4096 * MIB);
}

TEST(attention_workspace_of_our_own_kernel_is_never_more_than_cudnns)
{
    for (int64_t width = 1; width <= 1 << 20; width *= 2)
        for (int64_t rows = 1; rows <= 64; rows *= 4)
            for (int64_t most = 4 * MIB; most <= H200 / 32; most *= 4) {
                struct attention_shape own = of_8b(rows, width), other = own;
                own.own_kernel = true;
                int64_t room = attention_room(&own, most);
                int64_t blocks = attention_own_blocks(rows * width, rows);
                int64_t heads = attention_own_heads(&own, blocks, room);
                CHECK(room >= MIB && room <= attention_room(&other, most));
                CHECK(!heads || attention_own_bytes(blocks, 4 * heads) <= room);
            }
}

TEST(attention_workspace_is_for_our_own_kernel_where_it_is_faster)
{
    struct attention_shape shape = of_8b(1, 16384);
    CHECK(!attention_is_own(&shape)); // no code for it
    shape.own_kernel = true;
    CHECK(attention_is_own(&shape));
    CHECK(attention_own_heads(&shape, 257, attention_room(&shape, H200 / 32)) == 8);
    CHECK(attention_own_heads(&shape, 257, attention_own_bytes(257, 8)) == 2);
    CHECK(attention_own_heads(&shape, 257, attention_own_bytes(257, 4) - 1) == 0);
    shape.any_order = true;
    CHECK(!attention_is_own(&shape));
    shape.longest = 16383;
    CHECK(attention_is_own(&shape));
    shape.head_size = 64;
    CHECK(!attention_is_own(&shape));
}
