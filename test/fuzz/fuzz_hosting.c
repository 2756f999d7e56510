// SPDX-License-Identifier: Apache-2.0
// Whatever the text, a plan's document is read as a request or refused with a sentence.

#include "core/hosting/hosting.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(json)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct plan_request request;
    struct hosting_document document;
    struct text text = { (const char *)data, size };
    if (!hosting_read_plan(&request, &document, &arena, text, "fuzz")) {
        if (request.tokens < 1 || request.search)
            abort();
    }
    arena_release(&arena);
    return 0;
}
