// SPDX-License-Identifier: Apache-2.0
#include "base/embedded.h"
#include "core/hosting/offers.h"
#include "test/test.h"

#include <math.h>
#include <string.h>

static const struct catalog *catalog(void)
{
    struct catalog *opened = ARENA_NEW(&test_arena, struct catalog, 1);
    CHECK(!catalog_open(opened, &test_arena, NULL, 0));
    return opened;
}

static enum err read(struct offers *out, struct offers_report *report, const char *name,
                     const char *text)
{
    struct offers_source source = {
        .catalog = catalog(), .text = text_of(text), .name = name, .as_of = "2026-11-01"
    };
    return offers_read(out, report, &test_arena, &source);
}

static const char skypilot[] =
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,"
    "AvailabilityZone,GpuInfo\n"
    "p4d.24xlarge,A100,8.0,96,1152,32.77,12.1,us-east-1,us-east-1a,"
    "\"{'Gpus': [{'Name': 'A100', 'MemoryInfo': {'SizeInMiB': 40960}}]}\"\n"
    "p4d.24xlarge,A100,8.0,96,1152,32.77,14.5,us-east-1,us-east-1b,\n"
    "p4de.24xlarge,A100-80GB,8.0,96,1152,40.96,,us-west-2,us-west-2a,\n"
    "p5.48xlarge,H100,8.0,192,2048,0,,us-east-1,us-east-1a,\n"
    "p5.48xlarge,H100,8.0,192,2048,,,us-east-2,us-east-2a,\n"
    "p5.48xlarge,H100,8.0,192,2048,99999,,us-west-2,us-west-2a,\n"
    "p5.48xlarge,H100,8.0,192,2048,-3,,us-west-1,us-west-1a,\n"
    "m5.large,,,2,8,0.096,,us-east-1,us-east-1a,\n"
    "x1.large,Quantum9000,4,2,8,1.5,,us-east-1,us-east-1a,\n"
    "p4d.24xlarge,A100,8.0,96,1152,35.4,,eu-west-1,eu-west-1a,\n";

TEST(offers_of_a_skypilot_catalog_are_read_and_its_zones_merged)
{
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "catalogs/v7/aws/vms.csv", skypilot));
    CHECK(offers.count == 2 && report.rows == 10 && report.kept == 2 && report.merged == 1);
    const struct offer *first = &offers.rows[0].offer;
    CHECK(!strcmp(first->provider, "aws") && !strcmp(first->gpu, "a100-sxm-40gb"));
    CHECK(first->gpus == 8 && first->host_cores == 96);
    CHECK(first->on_demand_usd_per_hour == 32.77);
    CHECK(first->spot_usd_per_hour == 12.1 && first->spot_high_usd_per_hour == 14.5);
    CHECK(first->host_memory_bytes == 1152.0 * 1024 * 1024 * 1024);
    CHECK(!strcmp(offers.rows[1].offer.gpu, "a100-sxm-80gb"));
    CHECK(isnan(offers.rows[1].offer.spot_usd_per_hour));
}

TEST(offers_with_more_cores_than_any_machine_have_an_unknown_number)
{
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "aws/vms.csv",
                "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,"
                "Region,AvailabilityZone,GpuInfo\n"
                "p4d,A100,8.0,9223372036854775808,1152,32.77,12.1,us-east-1,us-east-1a,\n"));
    CHECK(offers.count == 1 && offers.rows[0].offer.host_cores == 0);
}

TEST(offers_of_other_catalogs_mean_the_card_that_their_memory_tells)
{
    static const char csv[] =
        "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,GpuInfo\n"
        "a,A100,1,2,us-east-1,\n"
        "b,A100,1,2,us-east-1,\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 81920}}]}\"\n"
        "c,H100,1,2,us-east-1,\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 81920}}]}\"\n"
        "d,H100,1,2,us-east-1,\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 96256}}]}\"\n"
        "e,RTXPRO6000,1,2,us-east-1,\n";
    static const char *const gpus[] = { "a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm", "h100-nvl",
                                        "rtx-pro-6000-se" };
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "aws.csv", csv) && offers.count == 5);
    for (size_t i = 0; i < offers.count; i++)
        CHECK(!strcmp(offers.rows[i].offer.gpu, gpus[i]));
}

TEST(offers_without_a_believable_price_are_left_out_and_reported)
{
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "aws.csv", skypilot));
    CHECK(report.refused[OFFERS_UNPRICED] == 2); // zero and missing: never free
    CHECK(report.refused[OFFERS_ABSURD] == 2);   // 99,999 / 8 and −3 / 8 dollars per GPU hour
    CHECK(strstr(report.example[OFFERS_ABSURD], "$12499.9 per GPU hour") != NULL);
    CHECK(report.refused[OFFERS_WITHOUT_GPU] == 1 && report.refused[OFFERS_UNKNOWN_GPU] == 1);
    CHECK(report.refused[OFFERS_ABROAD] == 1);
    CHECK(!strcmp(report.example[OFFERS_UNKNOWN_GPU], "Quantum9000"));
    const char *said = offers_report_spell(&report, &test_arena);
    CHECK(strstr(said, "2 offers from 10 rows; 7 refused") != NULL);
}

TEST(offers_of_gpuhunt_are_read_from_lists_and_lines)
{
    static const char list[] =
        "[{\"provider\":\"lambda\",\"instance_name\":\"gpu_8x_h100_sxm5\",\"location\":\"us-east-"
        "1\","
        "\"price\":23.92,\"cpu\":208,\"memory\":1800,\"gpu_count\":8,\"gpu_name\":\"H100\","
        "\"gpu_memory\":80,\"spot\":false},"
        "{\"provider\":\"gcp\",\"instance_name\":\"a2-ultragpu-1g\",\"location\":\"us-central1\","
        "\"price\":2.1,\"cpu\":12,\"memory\":170,\"gpu_count\":1,\"gpu_name\":\"A100\","
        "\"gpu_memory\":80,\"spot\":true},"
        "{\"provider\":\"x\",\"instance_name\":\"free\",\"price\":0,\"gpu_count\":1,"
        "\"gpu_name\":\"T4\"}]";
    static const char lines[] =
        "{\"provider\":\"lambda\",\"instance_name\":\"a\",\"price\":1,\"gpu_count\":1,"
        "\"gpu_name\":\"L4\"}\n"
        "{\"provider\":\"lambda\",\"instance_name\":\"b\",\"price\":2,\"gpu_count\":1,"
        "\"gpu_name\":\"T4\"}\n";
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "gpuhunt.json", list));
    CHECK(offers.count == 2 && report.refused[OFFERS_UNPRICED] == 1);
    CHECK(!strcmp(offers.rows[0].offer.gpu, "h100-sxm"));
    CHECK(!strcmp(offers.rows[1].offer.gpu, "a100-sxm-80gb"));
    CHECK(isnan(offers.rows[1].offer.on_demand_usd_per_hour));
    CHECK(offers.rows[1].offer.spot_usd_per_hour == 2.1);
    CHECK(!read(&offers, &report, "gpuhunt.json", lines) && offers.count == 2);
}

TEST(offers_written_hold_no_formula_and_no_line_of_an_imported_name)
{
    struct offers offers;
    struct offers_report report;
    struct out out = { .arena = &test_arena };
    CHECK(!read(&offers, &report, "aws.csv", skypilot) && offers.count);
    offers.count = 1;
    offers.rows[0].offer.instance = "=cmd()\nforged,1";
    offers.rows[0].offer.note = "@SUM(1)";
    offers_write(&offers, &out);
    CHECK(strstr(out_string(&out), ",\"'=cmd() forged,1\","));
    CHECK(strstr(out_string(&out), ",\"'@SUM(1)\"\n"));
}

TEST(offers_of_more_gpus_than_there_are_have_none)
{
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "aws.csv",
                "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,"
                "Region,AvailabilityZone,GpuInfo\n"
                "p5.48xlarge,H100,1e30,192,2048,1e31,,us-east-1,us-east-1a,\n"
                "p5.48xlarge,H100,8,192,2048,60,,us-east-1,us-east-1a,\n"));
    CHECK(offers.count == 1 && report.refused[OFFERS_WITHOUT_GPU] == 1);
}

TEST(offers_written_are_read_back_the_same)
{
    struct offers first, again;
    struct offers_report report;
    struct out out = { .arena = &test_arena };
    CHECK(!read(&first, &report, "aws.csv", skypilot));
    first.rows[0].offer.note = "negotiated, \"signed\"";
    offers_write(&first, &out);
    CHECK(!read(&again, &report, "own.csv", out_string(&out)));
    CHECK(again.count == first.count && report.kept == report.rows);
    for (size_t i = 0; i < first.count; i++) {
        const struct offer *a = &first.rows[i].offer, *b = &again.rows[i].offer;
        CHECK(!strcmp(a->instance, b->instance) && !strcmp(a->gpu, b->gpu));
        CHECK(a->on_demand_usd_per_hour == b->on_demand_usd_per_hour);
        CHECK(!strcmp(a->as_of, b->as_of));
    }
    CHECK(!strcmp(again.rows[0].offer.note, first.rows[0].offer.note));
}

TEST(offers_of_ones_own_need_little_and_may_say_much)
{
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "mine.csv",
                "provider,gpu,gpus,on_demand_usd_per_hour,compliance,queue_seconds,"
                "granularity_seconds,network_bytes_per_s_per_gpu\n"
                "acme,H100 SXM,8,16,hipaa|soc2,6h,1h,50 GB/s\n"));
    CHECK(offers.count == 1);
    CHECK(!strcmp(offers.rows[0].offer.gpu, "h100-sxm"));
    CHECK(!strcmp(offers.rows[0].compliance, "hipaa|soc2"));
    CHECK(offers.rows[0].queue_seconds == 6 * 3600 && offers.rows[0].granularity_seconds == 3600);
    CHECK(offers.rows[0].network_bytes_per_s_per_gpu == 50e9);
    CHECK(!strcmp(offers.rows[0].offer.as_of, "2026-11-01"));
}

TEST(offers_of_ones_own_are_refused_with_a_sentence)
{
    struct offers offers;
    struct offers_report report;
    CHECK(read(&offers, &report, "mine.csv",
               "provider,gpu,gpus,on_demand_usd_per_hour\nacme,h100,8,-5\n") == ERR_INPUT);
    CHECK(strstr(error_text(), "negative"));
    CHECK(read(&offers, &report, "mine.csv",
               "provider,gpu,gpus,on_demand_usd_per_hour\nacme,h1000,8,5\n") == ERR_INPUT);
    CHECK(strstr(error_text(), "h100"));
    CHECK(read(&offers, &report, "mine.csv", "") == ERR_INPUT);
    CHECK(read(&offers, &report, "mine.json", "{\"a\":1}") == ERR_INPUT);
    CHECK(read(&offers, &report, "a.csv", "InstanceType,Price\nx,1\n") == ERR_INPUT);
    CHECK(strstr(error_text(), "AcceleratorName"));
}

TEST(offers_age_in_days_across_leap_days_and_coarse_dates)
{
    CHECK(offers_days("2026-08-22", "2026-11-15") == 85); // 9 of August, 30, 31, 15
    CHECK(offers_days("2024-02-28", "2024-03-01") == 2);  // a leap year
    CHECK(offers_days("2025-02-28", "2025-03-01") == 1);
    CHECK(offers_days("2025-12-31", "2026-01-01") == 1);
    CHECK(offers_days("2026-10", "2026-10-15") == 0); // a month counts from its middle
    CHECK(offers_days("2026", "2026-07-01") == 0);    // a year likewise
    CHECK(isnan(offers_days("soon", "2026-07-01")) && isnan(offers_days(NULL, "2026")));
}

TEST(offers_lie_in_the_area_that_the_providers_name_says)
{
    static const struct {
        const char *region, *area;
    } known[] = {
        { "us-east-1", "us-east" },
        { "eastus2", "us-east" },
        { "us-ashburn-1", "us-east" },
        { "us-east4", "us-east" },
        { "westus3", "us-west" },
        { "westcentralus", "us-west" },
        { "us-phoenix-1", "us-west" },
        { "southcentralus", "us-south" },
        { "houston-usa-1", "us-south" },
        { "northcentralus", "us-central" },
        { "us-central1", "us-central" },
        { "North Carolina", "us-east" },
        { "US", "us" },
        { "global", NULL },
        { "", NULL },
        { OFFERS_NO_REGION, NULL },
        { "nyc2", "us-east" },
        { "atl1", "us-east" },
        { "ewr", "us-east" },
        { "ord", "us-central" },
        { "lax", "us-west" },
        { "tor1", NULL },
        { ", US, NA", "us" },
        { "Oregon, US, NA", "us-west" },
        { "Sverdlovsk Oblast, RU, EU", NULL },
        { "eu-west-1", NULL },
        { "jerusalem-israel-1", NULL },
        { "australiaeast", NULL },
        { "westeurope", NULL },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *area = offers_area(known[i].region);
        CHECK(known[i].area ? area && !strcmp(area, known[i].area) : !area);
    }
    CHECK(offers_in_region(&(struct offer){ .region = "eastus" }, "us-east"));
    CHECK(offers_in_region(&(struct offer){ .region = "US" }, "us-west"));
    CHECK(offers_in_region(&(struct offer){ .region = "us-east-1" }, "us-east-1"));
    CHECK(!offers_in_region(&(struct offer){ .region = "us-east-1" }, "us-west"));
    CHECK(!offers_in_region(&(struct offer){ .region = "eu-west-1" }, "us-west"));
}

TEST(offers_are_billed_by_the_providers_terms_or_by_the_cautious_ones)
{
    struct billing *rows;
    size_t count;
    CHECK(!offers_billing(&rows, &count, &test_arena, embedded_file("billing.csv"), "billing.csv"));
    CHECK(offers_terms(rows, count, "aws", "p5.48xlarge")->granularity_seconds == 1);
    CHECK(offers_terms(rows, count, "oci", "BM.GPU.H100.8")->minimum_seconds == 3600);
    CHECK(offers_terms(rows, count, "oci", "VM.GPU.A10.1")->minimum_seconds == 60);
    CHECK(offers_terms(rows, count, "nobody", "x")->granularity_seconds == 3600);
    CHECK(offers_billing(&rows, &count, &test_arena,
                         text_of("provider,granularity_seconds,minimum_seconds,egress_usd_per_gb,"
                                 "confidence,source,as_of\nx,0,0,0,low,y,2026\n"),
                         "mine.csv") == ERR_INPUT);
}

TEST(offers_of_every_provider_have_terms_with_a_source)
{
    struct billing *rows;
    size_t count;
    const struct catalog *c = catalog();
    CHECK(!offers_billing(&rows, &count, &test_arena, embedded_file("billing.csv"), "billing.csv"));
    for (size_t i = 0; i < c->offer_count; i++) {
        const struct offer *o = &c->offers[i];
        const struct billing *terms = offers_terms(rows, count, o->provider, o->instance);
        test_check(strcmp(terms->provider, "*") != 0, o->provider, "has terms of its own", 0);
        CHECK(terms->storage_source && terms->attested_source);
        CHECK(isnan(terms->storage_usd_per_gb_month) || terms->storage_as_of);
        CHECK(!terms->attested || terms->attested_as_of);
        CHECK(offers_storage(rows, count, terms)->storage_usd_per_gb_month > 0);
    }
    CHECK(offers_terms(rows, count, "hyperstack", "H100 SXM")->granularity_seconds == 60);
}

static const char *card_of(const char *row)
{
    struct offers offers;
    struct offers_report report;
    const char *csv = text_format(&test_arena,
                                  "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,"
                                  "GpuInfo\n%s\n",
                                  row);
    CHECK(!read(&offers, &report, "x.csv", csv));
    return offers.count                   ? offers.rows[0].offer.gpu
           : report.refused[OFFERS_SLICE] ? "slice"
                                          : "none";
}

TEST(offers_of_a_slice_of_a_gpu_are_no_whole_cards) // I1
{
    CHECK(!strcmp(card_of("8x_PRO-6000-MIG-24GB,PRO-6000-MIG-24GB,8,2,US,"), "slice"));
    CHECK(!strcmp(card_of("MIGHTY-8x,H100,8,20,US,"), "h100-sxm"));
}

TEST(offers_of_a_cent_for_a_gpu_hour_are_not_believed) // I3
{
    CHECK(!strcmp(card_of("a100.8x,A100,8,0.08,us-central2,"), "none"));
    CHECK(!strcmp(card_of("t4.1x,T4,1,0.06,us-central2,"), "t4"));
}

TEST(offers_keep_cards_and_modules_apart) // I4
{
    CHECK(!strcmp(card_of("Standard_NC24ads_A100_v4,A100-80GB,1,3,eastus,"), "a100-pcie-80gb"));
    CHECK(!strcmp(card_of("Standard_ND96amsr_A100_v4,A100-80GB,8,30,eastus,"), "a100-sxm-80gb"));
    CHECK(!strcmp(card_of("Standard_NC40ads_H100_v5,H100,1,7,eastus,"), "h100-nvl"));
    CHECK(!strcmp(card_of("gpu_1x_h100_pcie,H100,1,2,us-east-1,"), "h100-pcie"));
    CHECK(!strcmp(card_of("gpu_1x_h100_sxm5,H100,1,3,us-east-1,"), "h100-sxm"));
    CHECK(!strcmp(card_of("h100::8,H100-NVLINK,8,23,US,"), "h100-sxm"));
    CHECK(!strcmp(card_of("a,A100-80GB,1,2,US,\"{'Gpus': [{'Name': 'A100 PCIe'}]}\""),
                  "a100-pcie-80gb"));
    CHECK(!strcmp(card_of("gpu-rtx6000_1gpu,RTX6000,1,2,us-central1,\"{'SizeInMiB': 98304}\""),
                  "rtx-pro-6000-se"));
    CHECK(!strcmp(card_of("ECS1GPU,RTX6000,1,0.3,US,\"{'SizeInMiB': 24576}\""), "quadro-rtx-6000"));
    // A size that is that of all eight tells nothing of one.
    CHECK(!strcmp(card_of("l__8xH100_80GB,H100,8,20,US,\"{'SizeInMiB': 655360}\""), "h100-sxm"));
}

TEST(offers_without_a_country_or_a_date_get_none) // I5, I8
{
    struct offers offers;
    struct offers_report report;
    struct offers_source source = {
        .catalog = catalog(),
        .text = TEXT("InstanceType,AcceleratorName,AcceleratorCount,Price,Region\n"
                     "ECS2,L4,1,0.5,\nx,L4,1,0.5,default\n"),
        .name = "seeweb.csv",
    };
    CHECK(!offers_read(&offers, &report, &test_arena, &source) && offers.count == 2);
    CHECK(report.unplaced == 2 && report.undated == 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK(!offers.rows[i].offer.as_of && !offers_area(offers.rows[i].offer.region));
        CHECK(!offers_is_placed(offers.rows[i].offer.region));
        CHECK(!offers_in_region(&offers.rows[i].offer, "us"));
    }
    // The same after it was written and read as our own.
    struct out out = { .arena = &test_arena };
    offers_write(&offers, &out);
    source.text = out_view(&out);
    CHECK(!offers_read(&offers, &report, &test_arena, &source) && offers.count == 2);
    CHECK(!offers.rows[0].offer.as_of && !offers_is_placed(offers.rows[0].offer.region));
}

TEST(offers_of_an_auction_stay_one_when_imported)
{
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "mithril.csv",
                "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n"
                "h200.8x,H200,8,8,8,us-central2-a\n"));
    CHECK(offers.count == 1 && offers.rows[0].offer.price_kind == OFFER_AUCTION);
}

static const char aws_list[] =
    "{\"formatVersion\":\"v1.0\",\"publicationDate\":\"2026-11-10T01:02:03Z\",\"products\":{"
    "\"A\":{\"sku\":\"A\",\"productFamily\":\"Compute Instance\",\"attributes\":{\"instanceType\":"
    "\"p5.48xlarge\",\"regionCode\":\"us-east-1\",\"operatingSystem\":\"Linux\",\"tenancy\":"
    "\"Shared\",\"preInstalledSw\":\"NA\",\"capacitystatus\":\"Used\",\"gpu\":\"8\"}},"
    "\"B\":{\"sku\":\"B\",\"attributes\":{\"instanceType\":\"p5.48xlarge\",\"regionCode\":"
    "\"us-east-1\",\"operatingSystem\":\"Windows\",\"tenancy\":\"Shared\"}},"
    "\"C\":{\"sku\":\"C\",\"attributes\":{\"instanceType\":\"m5.large\",\"regionCode\":"
    "\"us-east-1\",\"operatingSystem\":\"Linux\"}},"
    "\"D\":{\"sku\":\"D\",\"attributes\":{\"instanceType\":\"p99.48xlarge\",\"regionCode\":"
    "\"us-east-1\",\"operatingSystem\":\"Linux\",\"gpu\":\"8\"}}},"
    "\"terms\":{\"OnDemand\":{"
    "\"A\":{\"A.1\":{\"priceDimensions\":{\"A.1.1\":{\"unit\":\"Hrs\",\"pricePerUnit\":{\"USD\":"
    "\"55.04\"}}}}},"
    "\"B\":{\"B.1\":{\"priceDimensions\":{\"B.1.1\":{\"unit\":\"Hrs\",\"pricePerUnit\":{\"USD\":"
    "\"63.8\"}}}}},"
    "\"C\":{\"C.1\":{\"priceDimensions\":{\"C.1.1\":{\"unit\":\"Hrs\",\"pricePerUnit\":{\"USD\":"
    "\"0.096\"}}}}},"
    "\"D\":{\"D.1\":{\"priceDimensions\":{\"D.1.1\":{\"unit\":\"Hrs\",\"pricePerUnit\":{\"USD\":"
    "\"90\"}}}}}},"
    "\"Reserved\":{\"A\":{\"A.2\":{\"termAttributes\":{\"LeaseContractLength\":\"1yr\","
    "\"OfferingClass\":\"standard\",\"PurchaseOption\":\"No Upfront\"},\"priceDimensions\":{"
    "\"A.2.1\":{\"unit\":\"Hrs\",\"pricePerUnit\":{\"USD\":\"40.1\"}}}},"
    "\"A.3\":{\"termAttributes\":{\"LeaseContractLength\":\"3yr\",\"OfferingClass\":"
    "\"standard\",\"PurchaseOption\":\"All Upfront\"},\"priceDimensions\":{\"A.3.1\":{\"unit\":"
    "\"Hrs\",\"pricePerUnit\":{\"USD\":\"0\"}}}}}}}}";

TEST(offers_of_awss_price_list_have_its_date_and_the_catalogs_gpu)
{
    struct offers offers;
    struct offers_report report;
    struct offers_source source = { .catalog = catalog(),
                                    .text = text_of(aws_list),
                                    .name = "prices.json" };
    CHECK(!offers_read(&offers, &report, &test_arena, &source));
    CHECK(offers.count == 1 && report.rows == 5 && report.kept == 1 && report.merged == 1);
    const struct offer *o = &offers.rows[0].offer;
    CHECK(!strcmp(o->provider, "aws") && !strcmp(o->gpu, "h100-sxm") && o->gpus == 8);
    CHECK(o->on_demand_usd_per_hour == 55.04 && o->reserved_1y_usd_per_hour == 40.1);
    CHECK(isnan(o->reserved_3y_usd_per_hour) && !strcmp(o->as_of, "2026-11-10"));
    CHECK(report.refused[OFFERS_OTHER_PRODUCT] == 1 && report.refused[OFFERS_WITHOUT_GPU] == 1);
    CHECK(report.refused[OFFERS_UNKNOWN_GPU] == 1);
    CHECK(!strcmp(report.example[OFFERS_UNKNOWN_GPU], "p99.48xlarge"));
}

TEST(offers_of_azures_retail_prices_are_read_by_kind)
{
    static const char list[] =
        "{\"BillingCurrency\":\"USD\",\"Items\":["
        "{\"armSkuName\":\"Standard_ND96isr_H100_v5\",\"armRegionName\":\"eastus\",\"skuName\":"
        "\"ND96isr H100 v5\",\"productName\":\"NDsrH100v5 Series\",\"type\":\"Consumption\","
        "\"unitOfMeasure\":\"1 Hour\",\"currencyCode\":\"USD\",\"retailPrice\":98.32,"
        "\"savingsPlan\":[{\"retailPrice\":73.7,\"term\":\"1 Year\"}]},"
        "{\"armSkuName\":\"Standard_ND96isr_H100_v5\",\"armRegionName\":\"eastus\",\"skuName\":"
        "\"ND96isr H100 v5 Spot\",\"productName\":\"NDsrH100v5 Series\",\"type\":"
        "\"Consumption\",\"unitOfMeasure\":\"1 Hour\",\"currencyCode\":\"USD\",\"retailPrice\":"
        "18.2},"
        "{\"armSkuName\":\"Standard_ND96isr_H100_v5\",\"armRegionName\":\"eastus\",\"skuName\":"
        "\"ND96isr H100 v5\",\"productName\":\"NDsrH100v5 Series\",\"type\":\"Reservation\","
        "\"reservationTerm\":\"3 Years\",\"unitOfMeasure\":\"1 Hour\",\"currencyCode\":\"USD\","
        "\"retailPrice\":1051200},"
        "{\"armSkuName\":\"Standard_ND96isr_H100_v5\",\"armRegionName\":\"eastus\",\"skuName\":"
        "\"ND96isr H100 v5\",\"productName\":\"NDsrH100v5 Series Windows\",\"type\":"
        "\"Consumption\",\"unitOfMeasure\":\"1 Hour\",\"currencyCode\":\"USD\",\"retailPrice\":"
        "102},7]}";
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "azure.json", list));
    CHECK(offers.count == 1 && report.rows == 4 && report.refused[OFFERS_OTHER_PRODUCT] == 1);
    const struct offer *o = &offers.rows[0].offer;
    CHECK(!strcmp(o->gpu, "h100-sxm") && o->gpus == 8 && o->on_demand_usd_per_hour == 98.32);
    CHECK(o->spot_usd_per_hour == 18.2 && o->reserved_1y_usd_per_hour == 73.7);
    CHECK_NEAR(o->reserved_3y_usd_per_hour, 40, 1e-12);
}

TEST(offers_report_counts_every_row_once)
{
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "aws.csv", skypilot));
    size_t sum = report.kept + report.merged;
    for (int i = 0; i < OFFERS_REFUSALS; i++)
        sum += report.refused[i];
    CHECK(sum == report.rows);
    struct out out = { .arena = &test_arena };
    offers_report_text(&report, &test_arena, &out);
    CHECK(strstr(out_string(&out), "its GPU is not in the catalog") != NULL);
    CHECK(strstr(out_string(&out), "its price is zero or missing") != NULL);
    CHECK(strstr(out_string(&out), "Quantum9000") != NULL);
}

TEST(offers_imported_with_formulas_and_endless_cells_are_written_as_text) // reliability 24
{
    struct out csv = { .arena = &test_arena };
    out_put(&csv, "InstanceType,AcceleratorName,AcceleratorCount,Price,Region\n"
                  "\"=cmd()\",H100,8,30,us-east-1\n@sum(1),H100,8,30,us-east-1\n"
                  "+1,H100,8,30,us-east-1\n-1,H100,8,30,us-east-1\n\"");
    enum { LONG = 10 << 20 };
    for (size_t i = 0; i < LONG; i++)
        out_char(&csv, "a\n\x1b="[i % 16 ? 0 : i / 16 % 4]);
    out_put(&csv, "\",H100,8,30,us-east-1\n");
    struct offers offers;
    struct offers_report report;
    CHECK(!read(&offers, &report, "aws.csv", out_string(&csv)) && offers.count == 5);
    struct out out = { .arena = &test_arena };
    offers_write(&offers, &out);
    CHECK(out_view(&out).size < 4000); // a cell of ten megabytes is cut
    struct csv sheet;
    CHECK(!csv_read(&sheet, &test_arena, out_view(&out), "offers.csv", ',') && sheet.rows == 5);
    for (size_t i = 0; i < sheet.rows; i++)
        for (size_t c = 0; c < 5; c++) {
            struct text cell = csv_cell(&sheet, i, (int)c);
            CHECK(!cell.size || !strchr("=+-@\t\r", cell.at[0]));
            CHECK(!memchr(cell.at, 27, cell.size));
        }
    CHECK(!read(&offers, &report, "offers.csv", out_string(&out)) && offers.count == 5);
}
