// What the page may call: allocate, set input, run, result.
#include "base/json.h"

#include <stdlib.h>

__attribute__((export_name("allocate"))) void *allocate(size_t size)
{
    return malloc(size);
}
