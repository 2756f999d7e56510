// SPDX-License-Identifier: Apache-2.0
// One's own machine as an offer: what an hour of it costs.
//
//     USD per hour in use  =  price / (years × 8760 h × use)  +  watts / 1000 × USD per kWh
//                             wear, shared by the hours in use    electricity
//
// The price of the machine counts only where it was given: who has it already may ask for the
// electricity alone. Interest, room and care are not counted; data/colocation.csv and the kind
// colocation have them.

#include "core/hosting/offers.h"

#include <math.h>
#include <string.h>

enum { HOURS_PER_YEAR = 8760 };

const struct field offers_machine_fields[] = {
    FIELD(offers_machine, machine, TEXT, "your own machine by its GPUs, e.g. 2x4090",
          .value = "GPUS", .fallback = ""),
    FIELD(offers_machine, machine_usd, USD, "what your machine cost",
          .fallback = "0: electricity alone counts"),
    FIELD(offers_machine, machine_years, NUMBER, "years until the machine is written off",
          .fallback = "colocation catalog"),
    FIELD(offers_machine, machine_use, SHARE,
          "share of the time it is in use; required with --machine-usd", .fallback = ""),
    FIELD(offers_machine, machine_watts, NUMBER, "watts that it draws while training",
          .fallback = "by its GPUs"),
    FIELD(offers_machine, machine_usd_per_kwh, USD, "price of its electricity per kWh",
          .fallback = "colocation catalog"),
    { 0 },
};

struct offers_machine offers_machine_default(void)
{
    struct offers_machine machine;
    memset(&machine, 0, sizeof machine);
    field_clear(offers_machine_fields, &machine);
    return machine;
}

static double fact_of(const struct catalog *catalog, const char *topic, const char *item)
{
    for (size_t i = 0; i < catalog->colocation_count; i++)
        if (!strcmp(catalog->colocation[i].topic, topic) &&
            !strcmp(catalog->colocation[i].item, item))
            return catalog->colocation[i].typical;
    return NAN;
}

// The highest power of a server with so many GPUs.
static double server_watts(const struct catalog *catalog, const struct gpu *gpu, double gpus)
{
    const struct node *node = catalog_node_of(catalog, gpu);
    return node && node->max_power_watts > 0 ? node->max_power_watts / (double)node->gpus * gpus
                                             : OFFERS_SERVER_OVER_GPUS * gpus * gpu->tdp_watts;
}

static enum err check(const struct offers_machine *m)
{
    const struct {
        const char *name;
        double value, most;
        bool may_be_zero;
    } bounds[] = {
        { "machine-usd", m->machine_usd, 1e9, true },
        { "machine-years", m->machine_years, 100, false },
        { "machine-use", m->machine_use, 1, false },
        { "machine-watts", m->machine_watts, 1e7, true },
        { "machine-usd-per-kwh", m->machine_usd_per_kwh, 100, true },
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].value > bounds[i].most || bounds[i].value < 0 ||
            (bounds[i].value == 0 && !bounds[i].may_be_zero))
            return fail(ERR_USAGE, "%s is %g, must be %s 0, at most %g", bounds[i].name,
                        bounds[i].value, bounds[i].may_be_zero ? "at least" : "above",
                        bounds[i].most);
    if (m->machine_usd > 0 && isnan(m->machine_use))
        return fail(ERR_USAGE, "machine-usd needs machine-use, the share of hours that the machine "
                               "is in use: they share its price");
    return OK;
}

static enum err complete(struct offers_machine *m, const struct catalog *catalog,
                         const struct gpu *gpu, double gpus)
{
    TRY(check(m));
    if (isnan(m->machine_usd))
        m->machine_usd = 0;
    if (isnan(m->machine_use))
        m->machine_use = 1;
    if (isnan(m->machine_years))
        m->machine_years = fact_of(catalog, "amortisation", "planning default");
    if (isnan(m->machine_watts))
        m->machine_watts =
            server_watts(catalog, gpu, gpus) * fact_of(catalog, "power", "GPU draw while training");
    if (isnan(m->machine_usd_per_kwh))
        m->machine_usd_per_kwh = fact_of(catalog, "electricity", "US commercial average");
    return OK;
}

double offers_machine_wear(const struct offers_machine *m)
{
    return m->machine_usd / (m->machine_years * HOURS_PER_YEAR * m->machine_use);
}

double offers_machine_electricity(const struct offers_machine *m)
{
    return m->machine_watts / 1000 * m->machine_usd_per_kwh;
}

enum err offers_machine_price(struct offers_row *row, const struct catalog *catalog,
                              const struct gpu *gpu)
{
    struct offer *offer = &row->offer;
    offer->price_kind = OFFER_OWN;
    if (!(offer->on_demand_usd_per_hour > 0)) {
        TRY(complete(&row->machine, catalog, gpu, (double)offer->gpus));
        offer->on_demand_usd_per_hour =
            offers_machine_wear(&row->machine) + offers_machine_electricity(&row->machine);
    }
    // Nothing is rounded up, and its disks and its network are there anyway.
    const struct {
        double *term, value;
    } free[] = { { &row->granularity_seconds, 1 },
                 { &row->minimum_seconds, 0 },
                 { &row->egress_usd_per_gb, 0 },
                 { &row->storage_usd_per_gb_month, 0 } };
    for (size_t i = 0; i < sizeof free / sizeof *free; i++)
        if (isnan(*free[i].term))
            *free[i].term = free[i].value;
    return OK;
}

// "2x4090" is two of that GPU, "4090" one.
static enum err read_gpus(const struct gpu **gpu, int64_t *gpus, const struct catalog *catalog,
                          const char *text)
{
    const char *name = text, *sign = text + strspn(text, "0123456789");
    *gpus = 1;
    if (sign > text && (*sign == 'x' || *sign == 'X') && sign[1]) {
        name = sign + 1;
        if (text_read_count(gpus, (struct text){ text, (size_t)(sign - text) }) || *gpus < 1 ||
            *gpus > 1024)
            return fail(ERR_USAGE,
                        "--machine is \"%s\", must be the number of GPUs, from 1 to "
                        "1024, and their name, as in 2x4090",
                        text);
    }
    return catalog_gpu(gpu, catalog, name) ? error_prefix(ERR_USAGE, "--machine: ") : OK;
}

enum err offers_machine_add(struct offers *to, struct arena *arena, const struct catalog *catalog,
                            const struct offers_machine *machine)
{
    const struct gpu *gpu;
    struct offers_row row = { 0 };
    struct offers own = { &row, 1 };
    if (!machine->machine) {
        for (const struct field *f = offers_machine_fields; f->name; f++)
            if (field_known(f, machine))
                return fail(ERR_USAGE, "no machine given; name its GPUs, e.g. --machine 2x4090");
        return OK;
    }
    offers_clear_terms(&row);
    row.machine = *machine;
    row.offer = (struct offer){ .provider = "own",
                                .region = OFFERS_HERE,
                                .region_scope = "region",
                                .host_memory_bytes = NAN,
                                .on_demand_usd_per_hour = NAN,
                                .spot_usd_per_hour = NAN,
                                .spot_high_usd_per_hour = NAN,
                                .reserved_1y_usd_per_hour = NAN,
                                .reserved_3y_usd_per_hour = NAN,
                                .source = "--machine" };
    TRY(read_gpus(&gpu, &row.offer.gpus, catalog, machine->machine));
    row.offer.gpu = gpu->name;
    row.offer.instance = text_format(arena, "%lldx-%s", (long long)row.offer.gpus, gpu->name);
    if (offers_machine_price(&row, catalog, gpu))
        return error_prefix(ERR_USAGE, "--");
    offers_override(to, arena, &own);
    return OK;
}
