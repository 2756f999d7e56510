// SPDX-License-Identifier: Apache-2.0
// kinds: what the injected faults are of. The library and the driver share this list.

#pragma once

#include <stdint.h>

enum fault_kind {
    FAULT_ALLOC,
    FAULT_MMAP,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_OPEN,
    FAULT_SYNC,
    FAULT_RENAME,
    FAULT_FORK,
    FAULT_THREAD,
    FAULT_LIBRARY,
    FAULT_CLOCK,
    FAULT_KINDS
};

static const char *const fault_kinds[FAULT_KINDS] = {
    "alloc",  "mmap", "read",   "write",   "open",  "sync",
    "rename", "fork", "thread", "library", "clock",
};
