// SPDX-License-Identifier: Apache-2.0
// What the comparison rests on, with its origin.

#include "core/hosting/hosting_internal.h"

#include <math.h>

static void add(struct hosting *h, struct assumption assumption, double given)
{
    if (h->assumption_count < sizeof h->assumptions / sizeof *h->assumptions)
        h->assumptions[h->assumption_count++] = assumption_given(assumption, given);
}

static struct assumption assumed(const char *name, const char *unit, double value,
                                 const char *source)
{
    return (struct assumption){ name,   unit, { value, value, value }, ASSUMPTION_ASSUMED,
                                source, NULL };
}

static void assume_spot(struct hosting *h, const struct hosting_job *job)
{
    const struct catalog *catalog = &job->plan->data->catalog;
    const struct fact *rate =
        catalog_operation(catalog, "spot", "preemptions per available hour, 1x V100");
    const struct fact *there = catalog_operation(catalog, "spot", "availability 8x V100 node");
    if (rate)
        add(h,
            (struct assumption){ "preemptions of a spot instance", "1/hour",
                                 hosting_preemption_rate(job, 1, NAN), ASSUMPTION_CATALOG,
                                 rate->source, rate->as_of },
            job->request->preemptions_per_hour);
    if (there)
        add(h,
            (struct assumption){ "availability of a spot node",
                                 "of the time",
                                 { there->low, there->typical, there->high },
                                 ASSUMPTION_CATALOG,
                                 there->source,
                                 there->as_of },
            NAN);
}

void hosting_assume(struct hosting *h, const struct hosting_job *job)
{
    const struct hosting_request *r = job->request;
    double tokens = job->plan->chosen.workload.tokens;
    add(h, assumed("runs per month", "", 1, "--runs-per-month sets it"),
        h->runs_assumed ? NAN : h->runs_per_month);
    add(h,
        assumed("size of the data", "bytes", HOSTING_TOKEN_BYTES * tokens,
                "four bytes a token of text"),
        r->data_bytes);
    add(h, assumed("link that moves data", "bytes/s", HOSTING_LINK_BYTES_PER_S, "1 Gb/s"), r->link);
    add(h,
        assumed("deviation of a price after a year", "of its logarithm", hosting_price_spread(365),
                "grows with the root of its age; AWS cut P5 by 44 % two years after it came out"),
        NAN);
    add(h,
        assumed("traffic between regions of a cloud", "USD/GB", HOSTING_REGION_USD_PER_GB,
                "as clouds commonly list it"),
        NAN);
    add(h,
        assumed("network of an instance that is part of a node", "bytes/s",
                HOSTING_PART_NETWORK_BYTES_PER_S, "10 Gb/s an instance"),
        NAN);
    assume_spot(h, job);
}
