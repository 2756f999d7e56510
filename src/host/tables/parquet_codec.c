// SPDX-License-Identifier: Apache-2.0
// Unpacks the pages of Parquet: gzip and zstd by their libraries, snappy and lz4 here.

#include "host/tables/parquet_internal.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

// Copies from what was already written; source and target may overlap, as runs do.
static bool copy_back(char *out, size_t *at, size_t size, size_t offset, size_t length)
{
    if (!offset || offset > *at || length > size - *at)
        return false;
    if (offset >= length) {
        memcpy(out + *at, out + *at - offset, length);
        *at += length;
        return true;
    }
    for (; length; length--, (*at)++)
        out[*at] = out[*at - offset];
    return true;
}

static bool copy_literal(struct text *in, char *out, size_t *at, size_t size, size_t length)
{
    if (length > in->size || length > size - *at)
        return false;
    memcpy(out + *at, in->at, length);
    *at += length;
    in->at += length;
    in->size -= length;
    return true;
}

// A little-endian number of so many bytes.
static bool take_number(struct text *in, int bytes, size_t *out)
{
    *out = 0;
    if (in->size < (size_t)bytes)
        return false;
    for (int i = 0; i < bytes; i++)
        *out |= (size_t)(unsigned char)in->at[i] << 8 * i;
    in->at += bytes;
    in->size -= (size_t)bytes;
    return true;
}

static bool unpack_snappy(struct text in, char *out, size_t size)
{
    size_t at = 0, claimed = 0, byte, more;
    for (int shift = 0;; shift += 7) {
        if (shift > 28 || !take_number(&in, 1, &byte))
            return false;
        claimed |= (byte & 127) << shift;
        if (!(byte & 128))
            break;
    }
    while (claimed == size && in.size) {
        take_number(&in, 1, &byte);
        size_t length = byte >> 2, offset;
        bool good;
        switch (byte & 3) {
        case 0:
            if (length >= 60 && !take_number(&in, (int)length - 59, &length))
                return false;
            good = copy_literal(&in, out, &at, size, length + 1);
            break;
        case 1:
            good = take_number(&in, 1, &more);
            offset = (byte >> 5) << 8 | more;
            good = good && copy_back(out, &at, size, offset, (length & 7) + 4);
            break;
        default:
            good = take_number(&in, byte & 1 ? 4 : 2, &offset) &&
                   copy_back(out, &at, size, offset, length + 1);
        }
        if (!good)
            return false;
    }
    return claimed == size && at == size;
}

// A length of 15 goes on in the bytes that follow, up to one that is not 255.
static bool long_length(struct text *in, size_t *length)
{
    size_t byte = 255;
    while (byte == 255) {
        if (!take_number(in, 1, &byte))
            return false;
        *length += byte;
    }
    return true;
}

static bool unpack_lz4(struct text in, char *out, size_t size)
{
    size_t at = 0, token, offset;
    while (in.size) {
        take_number(&in, 1, &token);
        size_t length = token >> 4, match = token & 15;
        if (length == 15 && !long_length(&in, &length))
            return false;
        if (!copy_literal(&in, out, &at, size, length))
            return false;
        if (!in.size)
            break;
        if (!take_number(&in, 2, &offset) || (match == 15 && !long_length(&in, &match)) ||
            !copy_back(out, &at, size, offset, match + 4))
            return false;
    }
    return at == size;
}

static bool unpack_gzip(struct text in, char *out, size_t size)
{
    z_stream z = { .next_in = (Bytef *)in.at,
                   .avail_in = (uInt)in.size,
                   .next_out = (Bytef *)out,
                   .avail_out = (uInt)size };
    if (inflateInit2(&z, 15 + 32) != Z_OK) // 32: gzip or zlib, by its header
        return false;
    int state = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return state == Z_STREAM_END && !z.avail_out;
}

const char *parquet_codec_unpack(int codec, struct text in, char *out, size_t size)
{
    static const char *const others[] = { [3] = "lzo", [4] = "brotli", [5] = "framed lz4" };
    bool good;
    switch (codec) {
    case 0:
        good = in.size == size;
        if (good && size)
            memcpy(out, in.at, size);
        break;
    case 1: good = unpack_snappy(in, out, size); break;
    case 2: good = unpack_gzip(in, out, size); break;
    case 6: good = ZSTD_decompress(out, size, in.at, in.size) == size; break;
    case 7: good = unpack_lz4(in, out, size); break;
    default: return codec >= 3 && codec <= 5 ? others[codec] : "an unknown codec";
    }
    return good ? NULL : "";
}
