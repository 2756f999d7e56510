// SPDX-License-Identifier: Apache-2.0
#include "core/hosting/offers.h"
#include "test/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum err read(struct offers *out, struct offers_report *report, const char *name,
                     const char *text)
{
    struct catalog *catalog = ARENA_NEW(&test_arena, struct catalog, 1);
    CHECK(!catalog_open(catalog, &test_arena, NULL, 0));
    struct offers_source source = { .catalog = catalog, .text = text_of(text), .name = name };
    return offers_read(out, report, &test_arena, &source);
}

static const struct offer *find(const struct offers *offers, const char *instance,
                                const char *region)
{
    for (size_t i = 0; i < offers->count; i++)
        if (!strcmp(offers->rows[i].offer.instance, instance) &&
            !strcmp(offers->rows[i].offer.region, region))
            return &offers->rows[i].offer;
    return NULL;
}

static void check_sum(const struct offers_report *r)
{
    size_t sum = r->kept + r->merged + r->parts;
    for (int i = 0; i < OFFERS_REFUSALS; i++)
        sum += r->refused[i];
    CHECK(sum == r->rows + r->formed);
}

TEST(offers_of_gcp_in_skypilots_catalog_cost_host_and_gpus) // I2
{
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "gcp.csv",
                "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,"
                "AvailabilityZone,Price,SpotPrice\n"
                ",,,A100,1,us-central1,us-central1-a,2.93391,1.6939\n"
                ",,,A100,1,us-central1,us-central1-b,2.93391,1.7\n"
                ",,,A100,1,us-west1,us-west1-b,2.93391,1.6939\n"
                ",,,A100,8,us-central1,us-central1-a,23.47127,\n"
                ",,,H100-MEGA,8,us-central1,us-central1-a,82.75421,49.6448\n"
                ",,,T4,1,us-central1,us-central1-a,0.35,0.2\n"
                ",,,B200,8,us-central1,us-central1-b,90.216,39.6336\n"
                ",,,tpu-v5p-8,1,us-central1,us-central1-a,4.2,\n"
                "a2-highgpu-1g,12,85,,,us-central1,us-central1-a,0.73948,0.42691\n"
                "a2-highgpu-1g,12,85,,,us-central1,us-central1-b,0.73948,0.42691\n"
                "a3-highgpu-8g,208,1872,,,us-central1,us-central1-a,9.46006,5.6759\n"
                "a3-megagpu-8g,208,1872,,,us-central1,us-central1-a,9.46006,5.6759\n"
                "n1-standard-8,8,30,,,us-central1,us-central1-a,0.38,0.08\n"
                "e2-small,2,2,,,us-central1,us-central1-a,0.02,0.01\n"));
    const struct offer *o = find(&offers, "a2-highgpu-1g", "us-central1");
    CHECK(o && !strcmp(o->gpu, "a100-sxm-40gb") && o->gpus == 1 && o->host_cores == 12);
    CHECK_NEAR(o->on_demand_usd_per_hour, 3.67339, 1e-9);
    CHECK_NEAR(o->spot_usd_per_hour, 2.12081, 1e-9);
    CHECK_NEAR(o->spot_high_usd_per_hour, 2.12691, 1e-9); // of the other zone
    CHECK(!find(&offers, "a2-highgpu-1g", "us-west1"));   // no host there
    CHECK(!find(&offers, "a2-highgpu-8g", "us-central1"));
    CHECK_NEAR(find(&offers, "a3-megagpu-8g", "us-central1")->on_demand_usd_per_hour, 92.21427,
               1e-9);
    CHECK(!find(&offers, "a3-highgpu-8g", "us-central1")); // its GPUs have no price
    CHECK_NEAR(find(&offers, "n1-standard-8+T4x1", "us-central1")->on_demand_usd_per_hour, 0.73,
               1e-9);
    o = find(&offers, "a4-highgpu-8g", "us-central1"); // the price of its GPUs is all
    CHECK(o && o->on_demand_usd_per_hour == 90.216 && o->price_kind == OFFER_RESERVATION);
    CHECK(report.rows == 14 && report.kept == 4 && report.merged == 1 && report.parts == 8);
    CHECK(report.refused[OFFERS_HOSTLESS] == 2 && report.refused[OFFERS_UNKNOWN_GPU] == 1);
    CHECK(report.refused[OFFERS_WITHOUT_GPU] == 2);
    check_sum(&report);
}

// A SKU of the billing catalog.
static const char *sku(const char *about, const char *group, const char *usage, const char *unit,
                       const char *usd)
{
    const char *dot = strchr(usd, '.');
    return text_format(&test_arena,
                       "{\"description\":\"%s\",\"category\":{\"resourceFamily\":\"Compute\","
                       "\"resourceGroup\":\"%s\",\"usageType\":\"%s\"},\"serviceRegions\":"
                       "[\"us-central1\",\"us-east1\"],\"pricingInfo\":[{\"effectiveTime\":"
                       "\"2026-11-03T09:12:44Z\",\"pricingExpression\":{\"usageUnit\":\"%s\","
                       "\"tieredRates\":[{\"startUsageAmount\":0,\"unitPrice\":{\"currencyCode\":"
                       "\"USD\",\"units\":\"%.*s\",\"nanos\":%ld}}]}}]}",
                       about, group, usage, unit, (int)(dot - usd), usd, strtol(dot + 1, NULL, 10));
}

static const char *page(const char *const *skus)
{
    struct out out = { .arena = &test_arena };
    out_put(&out, "{\"skus\":[");
    for (size_t i = 0; skus[i]; i++)
        out_put(&out, "%s%s", i ? "," : "", skus[i]);
    out_put(&out, "],\"nextPageToken\":\"\"}");
    return out_string(&out);
}

TEST(offers_of_gcps_billing_catalog_are_the_sum_of_their_parts)
{
    const char *const skus[] = {
        sku("Nvidia Tesla A100 GPU running in Americas", "GPU", "OnDemand", "h", "2.933908000"),
        sku("A2 Instance Core running in Americas", "CPU", "OnDemand", "h", "0.031611000"),
        sku("A2 Instance Ram running in Americas", "RAM", "OnDemand", "GiBy.h", "0.004240000"),
        sku("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", "GPU",
            "Preemptible", "h", "1.557000000"),
        sku("Spot Preemptible A2 Instance Core running in Americas", "CPU", "Preemptible", "h",
            "0.015000000"),
        sku("Spot Preemptible A2 Instance Ram running in Americas", "RAM", "Preemptible", "GiBy.h",
            "0.002000000"),
        sku("Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Americas", "GPU",
            "OnDemand", "h", "1.600000000"),
        sku("DWS Defined Duration A2 Core running in Americas", "CPU", "OnDemand", "h",
            "0.016000000"),
        sku("DWS Defined Duration A2 Ram running in Americas", "RAM", "OnDemand", "GiBy.h",
            "0.002330000"),
        sku("Commitment v1: Nvidia Tesla A100 GPU running in Americas for 1 Year", "GPU",
            "Commit1Yr", "h", "1.848000000"),
        sku("Commitment v1: A2 Cpu in Americas for 1 Year", "CPU", "Commit1Yr", "h", "0.019900000"),
        sku("Commitment v1: A2 Ram in Americas for 1 Year", "RAM", "Commit1Yr", "GiBy.h",
            "0.002670000"),
        sku("A4 Nvidia B200 (1 gpu slice) running in Americas", "GPU", "OnDemand", "h",
            "16.110000000"),
        sku("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", "GPU", "OnDemand",
            "h", "4.841121000"),
        sku("Reserved Nvidia Tesla A100 80GB GPU in Virginia", "GPU", "OnDemand", "h",
            "0.000000000"),
        sku("Nvidia L4 GPU running in Americas", "GPU", "OnDemand", "h", "0.560040000"),
        sku("N2 Instance Core running in Americas", "CPU", "OnDemand", "h", "0.031611000"),
        NULL,
    };
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "skus.json", page(skus)));
    const struct offer *o = find(&offers, "a2-highgpu-1g", "us-east1");
    CHECK(o && !strcmp(o->provider, "gcp") && !strcmp(o->gpu, "a100-sxm-40gb"));
    CHECK(!strcmp(o->as_of, "2026-11-03") && o->price_kind == OFFER_FIRM);
    CHECK_NEAR(o->on_demand_usd_per_hour, 2.933908 + 12 * 0.031611 + 85 * 0.00424, 1e-9);
    CHECK_NEAR(o->spot_usd_per_hour, 1.557 + 12 * 0.015 + 85 * 0.002, 1e-9);
    CHECK_NEAR(o->reserved_1y_usd_per_hour, 1.848 + 12 * 0.0199 + 85 * 0.00267, 1e-9);
    CHECK(isnan(o->reserved_3y_usd_per_hour));
    o = find(&offers, "a2-megagpu-16g", "us-central1");
    CHECK_NEAR(o->on_demand_usd_per_hour, 16 * 2.933908 + 96 * 0.031611 + 1360 * 0.00424, 1e-9);
    o = find(&offers, "a2-highgpu-1g-flex", "us-central1");
    CHECK(o && o->price_kind == OFFER_FLEX && text_is(offers_instance(o), "a2-highgpu-1g"));
    CHECK_NEAR(o->on_demand_usd_per_hour, 1.6 + 12 * 0.016 + 85 * 0.00233, 1e-9);
    o = find(&offers, "a4-highgpu-8g", "us-central1"); // a slice has its host in it
    CHECK_NEAR(o->on_demand_usd_per_hour, 8 * 16.11, 1e-9);
    // The parts of two machines are missing; two SKUs are no part of one.
    CHECK(report.rows == 17 && report.parts == 13 && report.refused[OFFERS_HOSTLESS] == 2);
    CHECK(report.refused[OFFERS_OTHER_PRODUCT] == 2);
    CHECK(strstr(report.example[OFFERS_HOSTLESS], "Calendar Mode") != NULL);
    check_sum(&report);
}

TEST(offers_of_gcps_billing_catalog_are_read_across_pages_and_days)
{
    const char *const first[] = {
        sku("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", "GPU", "OnDemand",
            "h", "4.841121000"),
        sku("Nvidia H100 80GB Plus GPU running in Americas", "GPU", "OnDemand", "h",
            "10.344276000"),
        NULL
    };
    const char *const second[] = {
        sku("Reserved A3Plus Core in Americas in Calendar Mode", "CPU", "OnDemand", "h",
            "0.012600000"),
        sku("Reserved A3Plus Ram in Americas in Calendar Mode", "RAM", "OnDemand", "GiBy.h",
            "0.001100000"),
        sku("A3Plus Instance Core running in Americas", "CPU", "OnDemand", "h", "0.026924000"),
        sku("A3Plus Instance Ram running in Americas", "RAM", "OnDemand", "GiBy.h", "0.002344000"),
        NULL
    };
    struct offers offers;
    struct offers_report report;
    const char *pages = text_format(&test_arena, "[%s,%s]", page(first), page(second));
    CHECK(!read(&offers, &report, "skus.json", pages));
    const struct offer *o = find(&offers, "a3-megagpu-8g", "us-central1");
    CHECK_NEAR(o->on_demand_usd_per_hour, 8 * 10.344276 + 208 * 0.026924 + 1872 * 0.002344, 1e-9);
    o = find(&offers, "a3-megagpu-8g-block", "us-central1");
    CHECK(o && o->price_kind == OFFER_BLOCK);
    CHECK_NEAR(o->on_demand_usd_per_hour, 8 * 4.841121 + 208 * 0.0126 + 1872 * 0.0011, 1e-9);
    CHECK(report.rows == 6 && report.parts == 6);
    check_sum(&report);
}
