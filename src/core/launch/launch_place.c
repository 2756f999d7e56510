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

bool launch_is_elsewhere(const struct launch *job)
{
    const struct launch_place *p = job->place;
    return strcmp(p->gpu, job->plan->gpu) != 0 || p->nodes * p->gpus_per_node != job->plan->gpus;
}

// The weights while they load, as planned, a quarter more, and what a process with CUDA and its
// data loaders takes.
static const double LOADING = 1.25, PROCESS_BYTES = 16 * 1073741824.0;

int64_t launch_memory_gib(const struct launch *job)
{
    double bytes = PROCESS_BYTES + LOADING * fmax(job->plan->host_bytes, 0); // passes over NAN
    return (int64_t)ceil(bytes * (double)job->place->gpus_per_node / 1073741824.0);
}

// What may be paid: the price of the offer; for spot instances the highest that was seen.
static double cap_of(const struct hosting_row *row)
{
    double usd = row->usd_per_hour;
    if (row->kind == OFFERS_SPOT && row->offer)
        usd = fmax(usd, row->offer->offer.spot_high_usd_per_hour); // fmax passes over NAN
    return ceil(usd * 100 - 1e-6) / 100;
}

// A price of a list ("H100-SXM (list)") holds for GPUs, wherever they are, and its instance has a
// name of ours. GCP's older machines are named with the GPUs that they are given:
// "n1-standard-8+T4x1".
static const char *machine_of(const struct hosting_row *row, struct arena *arena)
{
    if (!row->offer)
        return row->instance;
    const struct offer *offer = &row->offer->offer;
    struct text name = offers_instance(offer), first = name;
    if (offer->region_scope && !strcmp(offer->region_scope, "list"))
        return NULL;
    text_next(&name, '+', &first);
    return text_copy(arena, first);
}

static const char *region_of(const struct hosting_row *row)
{
    const char *scope = row->offer ? row->offer->offer.region_scope : NULL;
    if (scope && !strcmp(scope, "us-any"))
        return !strcmp(row->provider, "runpod") ? row->region : NULL; // its regions are countries
    return offers_is_placed(row->region) && !(scope && !strcmp(scope, "list")) ? row->region : NULL;
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
        .machine = machine_of(row, arena),
        .region = region_of(row),
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
    bool regions; // are called as the provider calls them; vast's are states, runpod's countries
} clouds[] = {
    { "aws", "aws", "aws", true },
    { "gcp", "gcp", "gcp", true },
    { "azure", "azure", "azure", true },
    { "oci", "oci", "oci", true },
    { "lambda", "lambda", "lambda", true },
    { "runpod", "runpod", "runpod", false },
    { "vast", "vast", "vastai", false },
    { "nebius", "nebius", "nebius", true },
    { "cudo", "cudo", "cudo", false },
    { "do", "do", "digitalocean", true },
    { "crusoe", NULL, "crusoe", false },
    { "fluidstack", "fluidstack", NULL, false },
    { "hyperstack", "hyperstack", NULL, false },
    { "ibm", "ibm", NULL, false },
    { "mithril", "mithril", NULL, false },
    { "paperspace", "paperspace", NULL, false },
    { "primeintellect", "primeintellect", NULL, false },
    { "shadeform", "shadeform", NULL, false },
    { "yotta", "yotta", NULL, false },
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

bool launch_regions_are_its_own(const char *provider)
{
    for (size_t i = 0; i < sizeof clouds / sizeof *clouds; i++)
        if (!strcmp(clouds[i].provider, provider))
            return clouds[i].regions;
    return false;
}

bool launch_serves(enum launch_to to, const struct hosting_row *row)
{
    bool rents = to == LAUNCH_SKY || to == LAUNCH_DSTACK;
    // A block has to be bought before, and neither tool asks for a flexible start.
    bool apart = row->price_kind == OFFER_BLOCK || row->kind == OFFERS_FLEX;
    return row->kind != OFFERS_MANAGED && launch_cloud(to, row->provider) && !(rents && apart);
}

bool launch_asks_by_gpu(const struct launch *job)
{
    const struct launch_place *p = job->place;
    bool named = p->provider && p->machine && strcmp(p->provider, "gcp") != 0;
    return job->request->to == LAUNCH_DSTACK || (job->request->to == LAUNCH_SKY && !named);
}

// GPUs whose name elsewhere is more than that of the catalog in capitals. dstack tells sizes of
// memory apart by a suffix, SkyPilot by names of their own.
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
    { "h200-nvl", "H200-NVL", "H200NVL" },
    { "b200-sxm", "B200", "B200" },
    { "b300-sxm", "B300", "B300" },
    { "gh200-96gb", "GH200", "GH200" },
    { "v100-sxm2-16gb", "V100", "V100:16GB" },
    { "v100-pcie-16gb", "V100", "V100:16GB" },
    { "v100-sxm2-32gb", "V100-32GB", "V100:32GB" },
    { "v100-pcie-32gb", "V100-32GB", "V100:32GB" },
    { "p100-pcie-16gb", "P100", "P100" },
    { "rtx-a4000", "RTXA4000", "A4000" },
    { "rtx-a4500", "RTXA4500", "A4500" },
    { "rtx-a5000", "RTXA5000", "A5000" },
    { "rtx-a6000", "A6000", "A6000" },
    { "rtx-4000-ada", "RTX4000-Ada", "RTX4000Ada" },
    { "rtx-6000-ada", "RTX6000-Ada", "RTX6000Ada" },
    { "rtx-pro-6000-se", "RTXPRO6000", "RTXPRO6000" },
    { "rtx-pro-6000-ws", "RTXPRO6000-WK", "RTXPRO6000WK" },
    { "quadro-rtx-6000", "RTX6000", "RTX6000" },
};

// In capitals, where that is all there is to it: "l40s", and "rtx-4090" without its dash. Of a
// longer name (rtx-4070-ti-super) nobody knows what became of its parts.
const char *launch_gpu(enum launch_to to, const char *gpu, struct arena *arena)
{
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (!strcmp(gpus[i].gpu, gpu))
            return to == LAUNCH_SKY ? gpus[i].sky : gpus[i].dstack;
    struct out name = { .arena = arena };
    bool dashed = !strncmp(gpu, "rtx-", 4);
    for (const char *at = gpu; *at; at++) {
        bool letter = *at >= 'a' && *at <= 'z', digit = *at >= '0' && *at <= '9';
        if (!letter && !digit && !(dashed && at == gpu + 3))
            return NULL;
        if (letter || digit)
            out_char(&name, letter ? (char)(*at - 'a' + 'A') : *at);
    }
    return out_string(&name);
}
