// SPDX-License-Identifier: Apache-2.0
// image: reads width and height from the header of a PNG, JPEG or WebP file; decodes nothing.
//
//     struct image_size size;
//     TRY(image_read(&size, bytes));
//
// The bytes may be the beginning of a file: a header that goes on after them is ERR_INPUT, as is
// any other form of file. Sides are 1 to IMAGE_LONGEST.

#pragma once

#include "base/text.h"

enum { IMAGE_LONGEST = 1 << 20 }; // pixels of a side; JPEG ends at 65,535, WebP at 16,777,216

struct image_size {
    int64_t width, height;
};

enum err image_read(struct image_size *out, struct text bytes);

// The size within base64 text, such as that after "data:image/png;base64,".
enum err image_read_base64(struct image_size *out, struct text digits);

// Reads "1024x768".
enum err image_read_words(struct image_size *out, struct text words);

// ERR_INPUT for sides that no image has.
enum err image_check(const struct image_size *size);
