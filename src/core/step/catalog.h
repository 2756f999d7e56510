// SPDX-License-Identifier: Apache-2.0
// catalog: the embedded tables of models, GPUs, nodes, offers and operational facts.
//
//     struct catalog catalog;
//     TRY(catalog_open(&catalog, arena, NULL, 0));
//     const struct gpu *gpu;
//     TRY(catalog_gpu(&gpu, &catalog, "H100 SXM"));
//
// The tables are CSV files compiled into the program. An override of the same name ("gpus.csv")
// adds its rows before the embedded ones of models, GPUs and nodes, and replaces those of the same
// name; other tables are replaced as a whole. Names match loosely: case, dashes, vendor names,
// publishers' prefixes and endings such as -Instruct do not matter; aliases are a column. Where a
// name matches several rows, the first in the file is taken, so "h100" is the SXM card. Rows live
// in the arena.

#pragma once

#include "core/step/model.h"
#include "base/name.h"

// Unknown numbers are NAN; rates are dense peaks with fp32 accumulation.
struct gpu {
    const char *name, *title, *aliases; // "h100-sxm", "H100 SXM5 80GB", "h100|h100-80gb"
    const char *vendor, *architecture, *form_factor, *compute_capability, *memory_type;
    int64_t year;
    double memory_bytes; // as the driver reports it
    double memory_bytes_per_s;
    double cache_bytes; // the last level, shared by its processors
    double fp32_flops_per_s, tf32_flops_per_s, fp16_flops_per_s, bf16_flops_per_s, fp8_flops_per_s,
        fp4_flops_per_s;
    double measured_bf16_flops_per_s; // the best matrix product found
    bool supports_bf16, supports_fp8, supports_fp4;
    bool peers_through_host;                       // copies between cards pass through host memory
    const char *link;                              // "NVLink4", "none"
    double link_bytes_per_s, link_p2p_bytes_per_s; // per GPU and direction: to all, to one other
    double pcie_bytes_per_s;                       // per direction
    double tdp_watts;
    const char *measured_source, *source, *as_of, *note;
};

struct node {
    const char *name, *aliases, *kind, *gpu; // kind: "reference", "cloud"; gpu: a gpu's name
    int64_t gpus, link_domain_gpus;          // GPUs that share the fast link
    const char *link;
    double link_bytes_per_s, link_p2p_bytes_per_s; // per GPU and direction
    double measured_allreduce_bytes_per_s;         // bus bandwidth
    const char *network;
    int64_t nics;
    double nic_bytes_per_s, network_bytes_per_s, network_bytes_per_s_per_gpu;
    double host_memory_bytes, host_cores, local_disk_bytes, remote_storage_bytes_per_s;
    double max_power_watts;
    const char *source, *as_of, *note;
};

// One operational fact or cost of ownership. A single value is typical; a range may lack it.
struct fact {
    const char *topic, *item, *unit, *conditions, *confidence;
    double low, typical, high;
    const char *source, *as_of, *note;
};

// What a price is. Only a firm price can be had by asking for it. An auction's floor and a median
// of other offers are no prices of this offer at all; a price for reservations or prepaid blocks is
// not one on demand, while the offer's spot and committed prices hold.
enum offer_price {
    OFFER_FIRM,
    OFFER_AUCTION,
    OFFER_MEDIAN,
    OFFER_RESERVATION,
    OFFER_BLOCK, // whole days, prepaid
    OFFER_FLEX,  // firm, but it starts when there is a machine
    OFFER_OWN,   // one's own machine
};
extern const char *const offer_price_kinds[]; // "firm", …; ended by NULL

struct offer {
    const char *provider, *instance, *gpu, *region, *region_scope;
    int64_t gpus, host_cores;
    double host_memory_bytes;
    double on_demand_usd_per_hour, spot_usd_per_hour, spot_high_usd_per_hour;
    double reserved_1y_usd_per_hour, reserved_3y_usd_per_hour; // for the whole instance
    int price_kind;                                            // enum offer_price
    const char *source, *as_of, *spot_as_of, *reserved_as_of, *note;
};

struct catalog {
    struct arena *arena;
    struct model *models;
    struct gpu *gpus;
    struct node *nodes;
    struct fact *operations, *colocation;
    struct offer *offers;
    size_t model_count, gpu_count, node_count, operation_count, colocation_count, offer_count;
    struct name_list model_names, gpu_names, node_names;
};

extern const struct field gpu_fields[], node_fields[], fact_fields[], offer_fields[];

struct catalog_file {
    const char *name, *path; // "gpus.csv"; path is the name in error messages
    struct text text;
};

// Reads and checks all tables.
enum err catalog_open(struct catalog *catalog, struct arena *arena,
                      const struct catalog_file *overrides, size_t count);

// Each finds a row by a loose name or fails with ERR_USAGE and the nearest name.
enum err catalog_gpu(const struct gpu **out, const struct catalog *catalog, const char *name);
enum err catalog_node(const struct node **out, const struct catalog *catalog, const char *name);

// NVIDIA's compute capability, 9 of an H100; 0 for other vendors' cards.
double catalog_capability(const struct gpu *gpu);

// As above; a model's name may end in " layers cut to N", which gives that shape with N layers.
enum err catalog_model(const struct model **out, const struct catalog *catalog, const char *name);

// The first node in the file that holds this GPU, or NULL. Reference builds come first.
// The node of an offer, "provider/instance"; NULL: its links and network are not known.
const struct node *catalog_offer_node(const struct catalog *catalog, const struct offer *offer);
const struct node *catalog_node_of(const struct catalog *catalog, const struct gpu *gpu);

// The fact of that topic and item, or NULL.
const struct fact *catalog_operation(const struct catalog *catalog, const char *topic,
                                     const char *item);
