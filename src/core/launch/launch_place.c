// SPDX-License-Identifier: Apache-2.0
// Describes the machines of an offer or of the plan, in the words of SkyPilot and dstack.

#include "core/launch/launch_internal.h"

#include <math.h>
#include <string.h>

// One process runs on each GPU, as many on every node; 0 where that does not come out even.
static int64_t gpus_of_node(int64_t gpus, int64_t nodes)
{
    return gpus % nodes ? 0 : gpus / nodes;
}

struct launch_place launch_place_of_plan(const struct launch_plan *plan)
{
    return (struct launch_place){
        .gpu = plan->gpu,
        .nodes = plan->nodes,
        .gpus_per_node = gpus_of_node(plan->gpus, plan->nodes),
        .usd_per_hour = NAN,
        .cap_usd_per_hour = NAN,
        .hours = plan->hours,
        .hours_p95 = plan->hours_p95,
        .save_seconds = plan->save_seconds,
        .step_seconds = plan->step_seconds,
        .disk_bytes = NAN,
        .micro_batch = plan->micro_batch,
        .global_batch = plan->global_batch,
    };
}

// What may be paid: the price of the offer; for spot instances the highest that was seen.
static double cap_of(const struct hosting_row *row)
{
    double usd = row->usd_per_hour;
    if (row->kind == OFFERS_SPOT && row->offer)
        usd = fmax(usd, row->offer->offer.spot_high_usd_per_hour); // fmax passes over NAN
    return ceil(usd * 100 - 1e-6) / 100;
}

enum err launch_place_of_row(struct launch_place *out, const struct hosting_row *row,
                             struct arena *arena)
{
    const struct search_result *result = hosting_configuration(row);
    if (!result || row->kind == OFFERS_MANAGED)
        return fail(ERR_USAGE,
                    "%s is a service that trains for you: there is no job file for it; name a "
                    "machine with --offer",
                    row->provider);
    // Data and model are fetched by the job itself, so its clock runs while they are.
    double moved = row->move.in_hours + row->move.out_hours;
    *out = (struct launch_place){
        .provider = row->provider,
        .instance =
            row->offer ? text_copy(arena, offers_instance(&row->offer->offer)) : row->instance,
        .region = offers_is_placed(row->region) ? row->region : NULL,
        .kind = offers_kind_names[row->kind],
        .gpu = result->gpu->name,
        .vendor = result->gpu->vendor,
        .nodes = row->instances,
        .gpus_per_node = gpus_of_node(row->gpus, row->instances),
        .spot = row->kind == OFFERS_SPOT,
        .usd_per_hour = row->usd_per_hour,
        .cap_usd_per_hour = offers_is_rented(row->kind) ? cap_of(row) : NAN,
        .hours = row->run_hours.mid + moved,
        .hours_p95 = hosting_run_hours(row, arena, 0.95) + moved,
        .save_seconds = row->kind == OFFERS_SPOT ? row->spot.interval_seconds : NAN,
        .step_seconds = result->seconds_per_step,
        .disk_bytes = row->disk_needed_bytes,
        .micro_batch = result->workload.micro_batch,
        .global_batch = result->workload.global_batch,
    };
    return OK;
}

// --- names elsewhere ---------------------------------------------------------

// Providers of the catalog; NULL: not served.
static const struct {
    const char *provider, *sky, *dstack;
} clouds[] = {
    { "aws", "aws", "aws" },
    { "gcp", "gcp", "gcp" },
    { "azure", "azure", "azure" },
    { "oci", "oci", "oci" },
    { "lambda", "lambda", "lambda" },
    { "runpod", "runpod", "runpod" },
    { "vast", "vast", "vastai" },
    { "nebius", "nebius", "nebius" },
    { "cudo", "cudo", "cudo" },
    { "do", "do", "digitalocean" },
    { "crusoe", NULL, "crusoe" },
    { "fluidstack", "fluidstack", NULL },
    { "hyperstack", "hyperstack", NULL },
    { "ibm", "ibm", NULL },
    { "mithril", "mithril", NULL },
    { "paperspace", "paperspace", NULL },
    { "primeintellect", "primeintellect", NULL },
    { "shadeform", "shadeform", NULL },
    { "yotta", "yotta", NULL },
};

const char *launch_cloud(enum launch_to to, const char *provider)
{
    for (size_t i = 0; i < sizeof clouds / sizeof *clouds; i++)
        if (!strcmp(clouds[i].provider, provider))
            return to == LAUNCH_SKY      ? clouds[i].sky
                   : to == LAUNCH_DSTACK ? clouds[i].dstack
                                         : provider;
    return to == LAUNCH_SKY || to == LAUNCH_DSTACK ? NULL : provider;
}

bool launch_serves(enum launch_to to, const struct hosting_row *row)
{
    bool rents = to == LAUNCH_SKY || to == LAUNCH_DSTACK;
    // A block has to be bought before, and neither tool asks for a flexible start.
    bool apart = row->price_kind == OFFER_BLOCK || row->kind == OFFERS_FLEX;
    return row->kind != OFFERS_MANAGED && launch_cloud(to, row->provider) && !(rents && apart);
}

// GPUs whose name elsewhere is not that of the catalog in capitals. dstack tells sizes of memory
// apart by a suffix, SkyPilot by names of their own.
static const struct {
    const char *gpu, *sky, *dstack;
} gpus[] = {
    { "a100-sxm-80gb", "A100-80GB", "A100:80GB" },
    { "a100-pcie-80gb", "A100-80GB", "A100:80GB" },
    { "a100-sxm-40gb", "A100", "A100:40GB" },
    { "a100-pcie-40gb", "A100", "A100:40GB" },
    { "h100-sxm", "H100", "H100" },
    { "h100-pcie", "H100", "H100" },
    { "h100-nvl", "H100-NVL", "H100NVL" },
    { "h200-sxm", "H200", "H200" },
    { "b200-sxm", "B200", "B200" },
    { "b300-sxm", "B300", "B300" },
    { "gh200-96gb", "GH200", "GH200" },
    { "v100-sxm2-16gb", "V100", "V100:16GB" },
    { "v100-pcie-16gb", "V100", "V100:16GB" },
    { "v100-sxm2-32gb", "V100-32GB", "V100:32GB" },
    { "p100-pcie-16gb", "P100", "P100" },
    { "rtx-3090", "RTX3090", "RTX3090" },
    { "rtx-4090", "RTX4090", "RTX4090" },
    { "rtx-5090", "RTX5090", "RTX5090" },
    { "rtx-a4000", "RTXA4000", "A4000" },
    { "rtx-a5000", "RTXA5000", "A5000" },
    { "rtx-a6000", "A6000", "A6000" },
    { "rtx-6000-ada", "RTX6000-Ada", "RTX6000Ada" },
};

const char *launch_gpu(enum launch_to to, const char *gpu, struct arena *arena)
{
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (!strcmp(gpus[i].gpu, gpu))
            return to == LAUNCH_SKY ? gpus[i].sky : gpus[i].dstack;
    char *name = arena_copy(arena, gpu, strlen(gpu));
    for (char *at = name; *at; at++)
        if (*at >= 'a' && *at <= 'z')
            *at = (char)(*at - 'a' + 'A');
    return name;
}
