// SPDX-License-Identifier: Apache-2.0
// Records, and the few protocol buffer fields of scalars inside them.

#include "core/trainers/tensorboard.h"

#include <math.h>
#include <string.h>

enum { HEADER = 12, FOOTER = 4 };
#define RECORD_MOST ((uint64_t)1 << 30)

// --- records -----------------------------------------------------------------

static uint64_t little(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

uint32_t tensorboard_checksum(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82F63B78 & -(crc & 1));
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

// --- protocol buffers --------------------------------------------------------

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct fields {
    const unsigned char *at, *end;
    int number;
    enum wire wire;
    uint64_t value; // bits of a number
    struct text bytes;
};

static bool read_varint(struct fields *f, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && f->at < f->end; shift += 7) {
        unsigned char byte = *f->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

// The next field; false at the end and at invalid bytes.
static bool next_field(struct fields *f)
{
    uint64_t key;
    if (!read_varint(f, &key))
        return false;
    f->number = (int)(key >> 3 & 0x1FFFFFFF);
    f->wire = key & 7;
    if (f->wire == WIRE_VARINT)
        return read_varint(f, &f->value);
    uint64_t size = f->wire == WIRE_64 ? 8 : 4;
    if (f->wire == WIRE_BYTES ? !read_varint(f, &size) : f->wire != WIRE_64 && f->wire != WIRE_32)
        return false;
    if (size > (uint64_t)(f->end - f->at))
        return false;
    f->bytes = (struct text){ (const char *)f->at, (size_t)size };
    f->value = f->wire == WIRE_BYTES ? 0 : little(f->at, (int)size);
    f->at += size;
    return true;
}

static struct fields fields_of(struct text bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.at;
    return (struct fields){ .at = at, .end = at + bytes.size };
}

static double float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return (double)value;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// A tensor of one float: its bytes (4) or its list of floats (5).
static double read_tensor(struct text bytes)
{
    struct fields f = fields_of(bytes);
    while (next_field(&f))
        if ((f.number == 4 || f.number == 5) && f.wire == WIRE_BYTES && f.bytes.size == 4)
            return float_of(little((const unsigned char *)f.bytes.at, 4));
        else if (f.number == 5 && f.wire == WIRE_32)
            return float_of(f.value);
    return NAN;
}

static void read_value(struct text bytes, struct tensorboard_scalar *scalar)
{
    struct fields f = fields_of(bytes);
    scalar->tag = TEXT("");
    scalar->value = NAN;
    while (next_field(&f))
        if (f.number == 1 && f.wire == WIRE_BYTES)
            scalar->tag = f.bytes;
        else if (f.number == 2 && f.wire == WIRE_32)
            scalar->value = float_of(f.value);
        else if (f.number == 8 && f.wire == WIRE_BYTES)
            scalar->value = read_tensor(f.bytes);
}

static void read_event(struct text bytes, tensorboard_callback *call, void *context)
{
    struct tensorboard_scalar scalar = { 0 };
    struct text summary = { 0 };
    struct fields f = fields_of(bytes);
    while (next_field(&f))
        if (f.number == 1 && f.wire == WIRE_64)
            scalar.wall_seconds = double_of(f.value);
        else if (f.number == 2 && f.wire == WIRE_VARINT)
            scalar.step = (int64_t)f.value;
        else if (f.number == 5 && f.wire == WIRE_BYTES)
            summary = f.bytes;
    if (!summary.at)
        return;
    f = fields_of(summary);
    while (next_field(&f)) {
        if (f.number != 1 || f.wire != WIRE_BYTES)
            continue;
        read_value(f.bytes, &scalar);
        if (!isnan(scalar.value))
            call(context, &scalar);
    }
}

enum err tensorboard_read(size_t *used, struct text bytes, const char *name,
                          tensorboard_callback *call, void *context)
{
    *used = 0;
    while (bytes.size - *used >= HEADER) {
        const unsigned char *at = (const unsigned char *)bytes.at + *used;
        uint64_t size = little(at, 8);
        if (tensorboard_checksum(at, 8) != little(at + 8, 4) || size > RECORD_MOST)
            return fail(ERR_INPUT, "%s: is not a TensorBoard event file, or is damaged at byte %zu",
                        name, *used);
        if (bytes.size - *used - HEADER < size + FOOTER)
            return OK; // still being written
        if (tensorboard_checksum(at + HEADER, size) != little(at + HEADER + size, 4))
            return fail(ERR_INPUT, "%s: the record at byte %zu is damaged", name, *used);
        read_event((struct text){ (const char *)at + HEADER, (size_t)size }, call, context);
        *used += HEADER + (size_t)size + FOOTER;
    }
    return OK;
}
