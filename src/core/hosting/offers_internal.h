// SPDX-License-Identifier: Apache-2.0
// offers_internal: what the readers of other tools' prices share.

#pragma once

#include "core/hosting/offers.h"

struct import {
    const struct offers_source *source;
    struct offers_report *report;
    struct arena *arena;
    struct offers *out;
    size_t room;
    const char *provider, *as_of; // as_of: of prices without a date of their own; NULL: not known
    // GPUs by name: a file has many rows and few GPUs.
    struct known {
        struct text name;
        const struct gpu *gpu;
    } known[256];
    size_t known_count;
    uint32_t *slots; // rows by instance, region and GPU; 0 is empty, else row + 1
    size_t slot_count;
};

// One row of a foreign table. Prices are NAN where it has none.
struct foreign {
    struct text provider, instance, gpu, region;
    struct text zone; // of the region; empty: not told
    struct text card; // further words about the GPU
    double gpus, cores, memory_bytes, gpu_memory_bytes, on_demand, spot;
    double reserved_1y, reserved_3y; // 0: none
    int price_kind;                  // enum offer_price; 0: what the catalog says of the instance
    int line;
};

// Takes the row, merges it with another zone's, or refuses it and counts why.
void offers_import_row(struct import *in, const struct foreign *row);
void offers_refuse(struct import *in, enum offers_refusal why, struct text example);

// Imports rows of which some are GPUs without a host, and others the hosts.
void offers_join_hosts(struct import *in, const struct foreign *rows, size_t count);

// Reads pages of GCP's billing catalog: an object with "skus", or a list of them; false: it is
// none.
bool offers_read_gcp(struct import *in, const struct json *tree);

// Reads the documented JSON of a cloud's price list; false: it is none.
bool offers_read_prices(struct import *in, const struct json *tree);
