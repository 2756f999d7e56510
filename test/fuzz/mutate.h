// SPDX-License-Identifier: Apache-2.0
// mutate: mutations that keep the form of a file, so that a fuzzer reaches beyond its parser.
//
// A form cuts an input into pieces (a member of an object, a tag of a template, a line, a length
// field). Pieces are then deleted, doubled, swapped, or overwritten with an extreme. A target says
// which form its inputs have:
//
//     MUTATES_AS(json)
//
// Half of all mutations stay libFuzzer's own, so that nothing is out of reach.

#pragma once

#include <stddef.h>
#include <stdint.h>

size_t mutate_json(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t mutate_lines(uint8_t *data, size_t size, size_t room, unsigned seed);    // YAML, CSV, logs
size_t mutate_template(uint8_t *data, size_t size, size_t room, unsigned seed); // Jinja
size_t mutate_words(uint8_t *data, size_t size, size_t room, unsigned seed);    // Arrow
size_t mutate_safetensors(uint8_t *data, size_t size, size_t room, unsigned seed);  // length, JSON
size_t mutate_adapter_file(uint8_t *data, size_t size, size_t room, unsigned seed); // JSON, 0, ^

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

#define MUTATES_AS(form)                                                                   \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) \
    {                                                                                      \
        return mutate_##form(data, size, room, seed);                                      \
    }
