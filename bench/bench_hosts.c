// SPDX-License-Identifier: Apache-2.0
// Time to rank all offers for a plan and to read a SkyPilot catalog of 100,000 rows; fails above
// 100 ms and 1 s of CPU time.

#include "base/embedded.h"
#include "core/hosting/hosting.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static enum err rank(double *best_ms, size_t *rows, struct arena *arena)
{
    struct plan_data data;
    struct plan plan;
    struct offers offers;
    struct billing *billing;
    size_t billing_count;
    TRY(plan_open(&data, arena, NULL, 0));
    struct plan_request request = plan_request_default();
    request.model = "llama-3.1-8b";
    request.tokens = 21400000;
    request.epochs = 3;
    request.gpu = "h100-sxm";
    request.gpus = 8;
    request.search = false;
    TRY(plan_make(&plan, arena, &data, &request));
    offers_of_catalog(&offers, arena, &data.catalog);
    TRY(offers_billing(&billing, &billing_count, arena, embedded_file("billing.csv"),
                       "billing.csv"));
    struct hosting_request asked = hosting_request_default();
    asked.today = "2026-11-15";
    asked.deadline = 48 * 3600;
    struct hosting_input input = { .plan = &plan,
                                   .offers = &offers,
                                   .billing = billing,
                                   .billing_count = billing_count,
                                   .request = &asked };
    *best_ms = INFINITY;
    for (int i = 0; i < 5; i++) {
        struct hosting hosting;
        struct arena_mark mark = arena_mark(arena);
        double start = now_ms();
        TRY(hosting_make(&hosting, arena, &input));
        *best_ms = fmin(*best_ms, now_ms() - start);
        *rows = hosting.count;
        arena_rewind(arena, mark);
    }
    printf("hosts: %zu offers, %zu rows, %d samples\n", offers.count, *rows, HOSTING_SAMPLES);
    return OK;
}

static enum err import(double *ms, struct arena *arena)
{
    static const char *const gpus[] = { "A100", "A100-80GB", "H100", "L4", "T4", "V100", "" };
    struct catalog catalog;
    TRY(catalog_open(&catalog, arena, NULL, 0));
    struct out csv = { .arena = arena };
    out_put(&csv, "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,"
                  "SpotPrice,Region,AvailabilityZone\n");
    for (int i = 0; i < 100000; i++)
        out_put(&csv,
                "m%d.xlarge,%s,%d,96,1152,\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 40960}}]}\","
                "%.4f,%.4f,us-east-%d,us-east-%da\n",
                i / 20, gpus[i % 7], 1 << i % 4, i % 11 ? 1.0 + i % 30 : 0.0, 0.5 + i % 9, i % 4,
                i % 20);
    struct offers offers;
    struct offers_report report;
    struct offers_source source = {
        .catalog = &catalog, .text = out_view(&csv), .name = "aws.csv", .as_of = "2026-11-15"
    };
    double start = now_ms();
    TRY(offers_read(&offers, &report, arena, &source));
    *ms = now_ms() - start;
    printf("import: %s\n", offers_report_spell(&report, arena));
    return OK;
}

int main(void)
{
    struct arena arena = { 0 };
    double rank_ms = NAN, import_ms = NAN;
    size_t rows = 0;
    enum err err = rank(&rank_ms, &rows, &arena);
    if (!err)
        err = import(&import_ms, &arena);
    if (err)
        fprintf(stderr, "bench_hosts: %s\n", error_text());
    else
        printf("ranked in %.0f ms (limit 100), imported in %.0f ms (limit 1000), CPU time\n",
               rank_ms, import_ms);
    arena_release(&arena);
    return err || rank_ms > 100 || import_ms > 1000;
}
