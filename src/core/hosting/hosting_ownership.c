// SPDX-License-Identifier: Apache-2.0
// What an owned server costs per month, and the utilization at which it beats renting.

#include "core/hosting/hosting.h"

#include <math.h>
#include <string.h>

static const double usual_network_usd = 300; // cross-connects, see the colo_price note

// The range that the matching facts of a topic span; mid is the median of their typical values.
static struct range gather(const struct catalog *catalog, const char *topic,
                           bool (*matches)(const struct fact *, const void *), const void *what,
                           const struct fact **first)
{
    double typical[32], low = NAN, high = NAN;
    size_t count = 0;
    for (size_t i = 0; i < catalog->colocation_count; i++) {
        const struct fact *f = &catalog->colocation[i];
        if (strcmp(f->topic, topic) || !matches(f, what))
            continue;
        if (!*first)
            *first = f;
        double least = isnan(f->low) ? f->typical : f->low;
        double most = isnan(f->high) ? f->typical : f->high;
        low = isnan(low) ? least : fmin(low, least);
        high = isnan(high) ? most : fmax(high, most);
        if (!isnan(f->typical) && count < 32)
            typical[count++] = f->typical;
    }
    double mid = count ? stats_median(typical, count) : (low + high) / 2;
    return (struct range){ low, mid, high };
}

struct server {
    const struct catalog *catalog;
    const struct gpu *gpu;
};

// Whether the fact is about "8x H100 SXM server" and the like, with the GPU that is wanted.
static bool is_server(const struct fact *f, const void *what)
{
    const struct server *wanted = what;
    const char *item = f->item;
    size_t size = strlen(item);
    if (strncmp(item, "8x ", 3) || size < 11 || strcmp(item + size - 7, " server"))
        return false;
    const struct gpu *gpu;
    struct arena *arena = wanted->catalog->arena;
    const char *name = text_copy(arena, (struct text){ item + 3, size - 10 });
    return !catalog_gpu(&gpu, wanted->catalog, name) && gpu == wanted->gpu;
}

static bool is_item(const struct fact *f, const void *what)
{
    return !strcmp(f->item, what);
}

static bool is_any(const struct fact *f, const void *what)
{
    (void)what;
    return strcmp(f->item, "high-density premium (>50 kW/rack)") && !strstr(f->item, "rate");
}

// Prices from 2025 on.
static bool is_recent(const struct fact *f, const void *what)
{
    (void)what;
    return is_any(f, what) && strncmp(f->as_of, "2025", 4) >= 0;
}

static bool is_planning(const struct fact *f, const void *what)
{
    (void)what;
    return strcmp(f->item, "industry average 2023") && strcmp(f->item, "hyperscale facilities");
}

static struct range given_or(double given, struct range known)
{
    return isnan(given) ? known : (struct range){ given, given, given };
}

static double typical_of(const struct catalog *catalog, const char *topic, const char *item)
{
    const struct fact *first = NULL;
    return gather(catalog, topic, is_item, item, &first).mid;
}

// The maximum power of the GPU's reference server.
static struct range power_of(const struct catalog *catalog, const struct gpu *gpu)
{
    const struct node *node = catalog_node_of(catalog, gpu);
    double kw = node && node->max_power_watts > 0
                    ? node->max_power_watts / 1000
                    : 8 * OFFERS_SERVER_OVER_GPUS * gpu->tdp_watts / 1000;
    return (struct range){ kw, kw, kw };
}

bool hosting_ownership_of(struct hosting_ownership *out, const struct catalog *catalog,
                          const struct gpu *gpu, const struct hosting_request *request)
{
    const struct fact *server = NULL, *other = NULL;
    struct server wanted = { catalog, gpu };
    struct range price = gather(catalog, "server_price", is_server, &wanted, &server);
    if (!server && isnan(request->server_price))
        return false;
    // A single figure gives no range: assume street prices within 30 % of it.
    if (price.low == price.high)
        price = (struct range){ 0.7 * price.mid, price.mid, 1.3 * price.mid };
    struct range years = gather(catalog, "amortisation", is_any, NULL, &other);
    struct range low_power =
        gather(catalog, "electricity", is_item, "US industrial average", &other);
    struct range power = gather(catalog, "electricity", is_item, "US commercial average", &other);
    struct range high_power =
        gather(catalog, "electricity", is_item, "commercial New England", &other);
    *out = (struct hosting_ownership){
        .gpu = gpu,
        .gpus = 8,
        .server_usd = given_or(request->server_price, price),
        .years = given_or(request->amortisation_years, years),
        .kilowatts = power_of(catalog, gpu),
        .pue = given_or(request->pue, gather(catalog, "pue", is_planning, NULL, &other)),
        .usd_per_kwh = given_or(request->electricity,
                                (struct range){ low_power.low, power.mid, high_power.high }),
        .usd_per_kw_month =
            given_or(request->rack_price, gather(catalog, "colo_price", is_recent, NULL, &other)),
        .resale_share = isnan(request->resale_share) ? 0 : request->resale_share,
        .capital_per_year = typical_of(catalog, "capital", "cost of capital default"),
        .operations_per_year = typical_of(catalog, "opex", "operations share of capex"),
        .network_per_month =
            isnan(request->network_per_month) ? usual_network_usd : request->network_per_month,
        .staff_per_month = isnan(request->staff_per_month) ? 0 : request->staff_per_month,
        .idle_share = typical_of(catalog, "power", "idle share of server power"),
        .draw_share = typical_of(catalog, "power", "GPU draw while training"),
        .confidence = server ? server->confidence : "given",
        .source = server ? server->source : "given",
        .as_of = server ? server->as_of : NULL,
    };
    return true;
}

// Cost of capital on the average balance: half of what is written off, plus the resale value.
static double capital(const struct hosting_ownership *o, double server)
{
    return server * (1 + o->resale_share) / 2 * o->capital_per_year / 12;
}

static double write_off(const struct hosting_ownership *o, double server, double years)
{
    return server * (1 - o->resale_share) / (years * 12);
}

// Average kilowatts over the month, measured at the building's meter.
static double average_kilowatts(const struct hosting_ownership *o, double utilization,
                                double kilowatts, double pue)
{
    double share = o->idle_share + (o->draw_share - o->idle_share) * utilization;
    return kilowatts * share * pue;
}

static struct range around(double low, double mid, double high)
{
    return (struct range){ low, mid, high };
}

struct range hosting_ownership_month(const struct hosting_ownership *o, double utilization,
                                     struct hosting_term *terms)
{
    struct range s = o->server_usd;
    double hours = HOSTING_HOURS_PER_MONTH, kw = o->kilowatts.mid;
    double low_kw = average_kilowatts(o, utilization, kw, o->pue.low),
           mid_kw = average_kilowatts(o, utilization, kw, o->pue.mid),
           high_kw = average_kilowatts(o, utilization, kw, o->pue.high);
    const struct hosting_term all[HOSTING_TERMS] = {
        [HOSTING_WRITE_OFF] = { "write-off",
                                around(write_off(o, s.low, o->years.high),
                                       write_off(o, s.mid, o->years.mid),
                                       write_off(o, s.high, o->years.low)),
                                o->confidence, o->source, o->as_of },
        { "capital", around(capital(o, s.low), capital(o, s.mid), capital(o, s.high)), "low",
          "capital, cost of capital default", NULL },
        { "operations",
          around(s.low * o->operations_per_year / 12, s.mid * o->operations_per_year / 12,
                 s.high * o->operations_per_year / 12),
          "low", "opex, operations share of capex: support, spares, staff", NULL },
        { "rack",
          around(kw * o->usd_per_kw_month.low, kw * o->usd_per_kw_month.mid,
                 kw * o->usd_per_kw_month.high),
          "medium", "colo_price per kW-month of maximum power", NULL },
        [HOSTING_ELECTRICITY] = { "electricity",
                                  around(low_kw * hours * o->usd_per_kwh.low,
                                         mid_kw * hours * o->usd_per_kwh.mid,
                                         high_kw * hours * o->usd_per_kwh.high),
                                  "medium", "power × PUE × electricity", NULL },
        { "network", around(o->network_per_month, o->network_per_month, o->network_per_month),
          "low", "cross-connects", NULL },
        { "staff", around(o->staff_per_month, o->staff_per_month, o->staff_per_month), "given",
          "--staff-per-month, in addition to operations", NULL },
    };
    struct range sum = { 0 };
    double below = 0, above = 0;
    for (int i = 0; i < HOSTING_TERMS; i++) {
        struct range usd = all[i].usd_per_month;
        sum.mid += usd.mid;
        below += (usd.mid - usd.low) * (usd.mid - usd.low);
        above += (usd.high - usd.mid) * (usd.high - usd.mid);
        if (terms)
            terms[i] = all[i];
    }
    sum.low = sum.mid - sqrt(below);
    sum.high = sum.mid + sqrt(above);
    return sum;
}

double hosting_ownership_break_even(const struct hosting_ownership *o, double usd_per_gpu_hour)
{
    // A month costs a + b·u and saves c·u: both are linear in the utilization u.
    double idle = hosting_ownership_month(o, 0, NULL).mid;
    double busy = hosting_ownership_month(o, 1, NULL).mid - idle;
    double saved = usd_per_gpu_hour * o->gpus * HOSTING_HOURS_PER_MONTH - busy;
    double share = saved > 0 ? idle / saved : NAN;
    return share <= 1 ? share : NAN;
}

double hosting_ownership_months(const struct hosting_ownership *o, double utilization,
                                double usd_per_gpu_hour)
{
    struct hosting_term terms[HOSTING_TERMS];
    struct range month = hosting_ownership_month(o, utilization, terms);
    double running = month.mid - terms[0].usd_per_month.mid - terms[1].usd_per_month.mid;
    double rent = usd_per_gpu_hour * o->gpus * HOSTING_HOURS_PER_MONTH * utilization;
    return rent > running ? o->server_usd.mid / (rent - running) : INFINITY;
}
