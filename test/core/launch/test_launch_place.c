// SPDX-License-Identifier: Apache-2.0
// launch: where a job runs is asked for in the words of who runs it.

#include "test/core/launch/asking.h"

TEST(launch_place_of_an_offer_has_its_p95_and_its_price)
{
    struct asked *a = ask(usual);
    const struct hosting *h = answer(a);
    struct launch_place place;
    size_t spots = 0;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *row = &h->rows[i];
        CHECK(!launch_place_of_row(&place, row, &test_arena));
        double moved = row->move.in_hours + row->move.out_hours;
        CHECK(place.hours_p95 - moved >= row->run_hours.high * (1 - 1e-12)); // P95 is above P90
        CHECK(place.hours_p95 > place.hours);
        CHECK(place.nodes * place.gpus_per_node == row->gpus);
        CHECK(isnan(place.cap_usd_per_hour) == !offers_is_rented(row->kind));
        CHECK(!(place.cap_usd_per_hour < row->usd_per_hour));
        CHECK(place.spot == (place.save_seconds > 0));
        spots += place.spot;
    }
    CHECK(spots > 0);
}

TEST(launch_tells_watch_where_it_placed_the_job)
{
    struct asking *a = asking(LAUNCH_SCRIPT);
    CHECK(!strstr(file_of(a, usual_words), " --gpus "));
    a->place.nodes = 2, a->place.gpus_per_node = 2;
    CHECK(strstr(file_of(a, usual_words), " --gpu h100-sxm --gpus 4 -- "));
    a->place = launch_place_of_plan(&a->plan);
    a->place.gpu = "a100-80gb";
    CHECK(strstr(file_of(a, usual_words), " --gpu a100-80gb --gpus 8 -- "));
}

TEST(launch_names_no_instance_of_a_price_that_is_for_gpus)
{
    static const struct {
        const char *instance, *region, *scope, *machine, *place;
    } cases[] = {
        { "H100-SXM (list)", "global", "list", NULL, NULL },
        { "BM.GPU.B200.8", "US", "list", NULL, NULL },
        { "gpu_8x_h100_sxm5", "US", "us-any", "gpu_8x_h100_sxm5", NULL },
        { "n1-standard-8+T4x1", "us-west1", "region", "n1-standard-8", "us-west1" },
        { "a3-highgpu-8g", "us-west1", "region", "a3-highgpu-8g", "us-west1" },
    };
    struct hosting_row row = answer(ask(usual))->rows[0];
    struct offers_row offer = *row.offer;
    row.offer = &offer;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct launch_place place;
        row.provider = offer.offer.provider = "gcp";
        row.instance = offer.offer.instance = cases[i].instance;
        row.region = offer.offer.region = cases[i].region;
        offer.offer.region_scope = cases[i].scope;
        CHECK(!launch_place_of_row(&place, &row, &test_arena));
        CHECK(!place.machine == !cases[i].machine && !place.region == !cases[i].place);
        CHECK(!place.machine || !strcmp(place.machine, cases[i].machine));
        CHECK(!place.region || !strcmp(place.region, cases[i].place));
        CHECK(!strcmp(place.instance, cases[i].instance)); // what people read
    }
    struct asking *a = asking(LAUNCH_SKY);
    a->place.provider = "nebius", a->place.instance = "H100-SXM (list)",
    a->place.kind = "on-demand";
    const char *file = file_of(a, usual_words);
    CHECK(strstr(file, "  infra: nebius\n  accelerators: H100:8\n"));
    CHECK(!strstr(file, "instance_type"));
    a->place.provider = "gcp", a->place.machine = "a3-megagpu-8g";
    CHECK(strstr(file_of(a, usual_words), "accelerators: H100-MEGA:8\n"));
}

TEST(launch_asks_dstack_for_gpus_and_not_for_names_of_other_catalogs)
{
    struct asking *a = asking(LAUNCH_DSTACK);
    a->place.provider = "runpod", a->place.kind = "on-demand";
    a->place.instance = a->place.machine = "8x_H100-SXM_SECURE";
    a->place.region = "US";
    const char *file = file_of(a, usual_words);
    CHECK(strstr(file, "backends:\n  - runpod\n") && strstr(file, "  gpu: H100:8\n"));
    CHECK(!strstr(file, "instance_types") && !strstr(file, "regions"));
    a->place.provider = "aws", a->place.region = "us-east-1";
    CHECK(strstr(file_of(a, usual_words), "regions:\n  - us-east-1\n"));
}

TEST(launch_knows_what_sky_and_dstack_call_each_gpu_that_is_rented)
{
    static const char *const known[][3] = {
        { "rtx-pro-6000-se", "RTXPRO6000", "RTXPRO6000" },
        { "a100-pcie-40gb", "A100", "A100:40GB" },
        { "rtx-a6000", "A6000", "A6000" },
        { "rtx-4090", "RTX4090", "RTX4090" },
        { "l40s", "L40S", "L40S" },
        { "mi300x", "MI300X", "MI300X" },
        { "rtx-4070-ti-super", NULL, NULL },
        { "mine of ours", NULL, NULL },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int to = LAUNCH_SKY; to <= LAUNCH_DSTACK; to++) {
            const char *name = launch_gpu((enum launch_to)to, known[i][0], &test_arena);
            const char *wanted = known[i][to == LAUNCH_SKY ? 1 : 2];
            test_check(name && wanted ? !strcmp(name, wanted) : !name && !wanted, known[i][0], "",
                       0);
        }
    const struct catalog *c = &planning_data()->catalog;
    CHECK(c->offer_count > 500);
    for (size_t i = 0; i < c->offer_count; i++)
        for (int to = LAUNCH_SKY; to <= LAUNCH_DSTACK; to++) {
            const char *gpu = c->offers[i].gpu;
            bool rents = launch_cloud((enum launch_to)to, c->offers[i].provider);
            test_check(!rents || launch_gpu((enum launch_to)to, gpu, &test_arena), gpu, "", 0);
        }
    struct asking *a = asking(LAUNCH_DSTACK);
    a->place.gpu = "rtx-4070-ti-super";
    CHECK(attempt(a, usual_words) == ERR_USAGE && strstr(error_text(), "rtx-4070-ti-super"));
}

TEST(launch_says_that_dstack_uploads_two_mebibytes_at_most)
{
    struct asking *a = asking(LAUNCH_DSTACK);
    a->request.data = "rows.jsonl";
    a->data_bytes = 2 << 20;
    CHECK(!attempt(a, usual_words) && !notes(&a->job, "2 MiB"));
    a->data_bytes = 30 << 20;
    CHECK(!attempt(a, usual_words) && notes(&a->job, "rows.jsonl (30.0 MiB) with the job"));
    CHECK(notes(&a->job, "DSTACK_SERVER_CODE_UPLOAD_LIMIT"));
    a->data_bytes = NAN; // a folder
    CHECK(!attempt(a, usual_words) && notes(&a->job, "rows.jsonl with the job"));
    a->request.data = NULL;
    CHECK(!attempt(a, usual_words) && !notes(&a->job, "2 MiB"));
}

TEST(launch_says_why_a_place_has_no_price_cap)
{
    struct asking *a = asking(LAUNCH_SCRIPT);
    a->place.provider = "own", a->place.instance = "rack-1", a->place.kind = "own";
    CHECK(!attempt(a, usual_words) && notes(&a->job, "the machine is yours"));
    CHECK(!notes(&a->job, "commitment"));
    a->place.provider = "aws", a->place.instance = "p5.48xlarge", a->place.kind = "reserved-1y";
    CHECK(!attempt(a, usual_words) && notes(&a->job, "reserved-1y is paid by a commitment"));
}

TEST(launch_percentile_is_that_of_the_samples)
{
    struct asked *a = ask(usual);
    const struct hosting_row *row = &answer(a)->rows[0];
    double p95 = hosting_run_hours(row, &test_arena, 0.95);
    size_t below = 0;
    for (size_t i = 0; i < HOSTING_SAMPLES; i++)
        below += row->wall_seconds[i] <= 3600 * p95;
    CHECK(below >= 95 * HOSTING_SAMPLES / 100 && below <= 96 * HOSTING_SAMPLES / 100);
}

TEST(launch_rents_no_block_and_no_flexible_start)
{
    struct hosting_row row = { .provider = "gcp", .kind = OFFERS_ON_DEMAND };
    for (int to = 0; launch_targets[to]; to++)
        CHECK(launch_serves((enum launch_to)to, &row));
    row.kind = OFFERS_FLEX;
    row.price_kind = OFFER_FLEX;
    CHECK(!launch_serves(LAUNCH_SKY, &row) && !launch_serves(LAUNCH_DSTACK, &row));
    CHECK(launch_serves(LAUNCH_SLURM, &row) && launch_serves(LAUNCH_SCRIPT, &row));
    row.kind = OFFERS_ON_DEMAND;
    row.price_kind = OFFER_BLOCK;
    CHECK(!launch_serves(LAUNCH_SKY, &row) && launch_serves(LAUNCH_K8S, &row));
    row = (struct hosting_row){ .provider = "own", .kind = OFFERS_OWN, .price_kind = OFFER_OWN };
    CHECK(!launch_serves(LAUNCH_SKY, &row) && launch_serves(LAUNCH_SCRIPT, &row));
    row.kind = OFFERS_MANAGED;
    CHECK(!launch_serves(LAUNCH_SCRIPT, &row));
}

TEST(launch_asks_slurm_for_cpus_and_memory_as_well_as_gpus)
{
    struct asking *a = asking(LAUNCH_SLURM);
    const char *whole = file_of(a, usual_words);
    CHECK(strstr(whole, "#SBATCH --exclusive\n#SBATCH --mem=0\n"));
    CHECK(strstr(whole, " --cpus-per-task=\"$SLURM_CPUS_ON_NODE\" ")); // srun gives one otherwise
    a->place.gpus_per_node = 2;
    a->plan.host_bytes = 16 * 1073741824.0;
    const char *part = file_of(a, usual_words); // 2 × (16 GiB + 1.25 × 16 GiB)
    CHECK(strstr(part, "#SBATCH --cpus-per-task=16\n#SBATCH --mem=72G\n"));
    CHECK(notes(&a->job, "16 CPUs and 72 GiB"));
    a->plan.host_bytes = NAN;
    CHECK(strstr(file_of(a, usual_words), "#SBATCH --mem=32G\n"));
    a->request.sbatch = "--qos=long --mem-per-gpu=64G";
    const char *given = file_of(a, usual_words); // sbatch takes only one of --mem and --mem-per-gpu
    CHECK(strstr(given, "#SBATCH --qos=long --mem-per-gpu=64G\n") && !strstr(given, "--mem="));
    CHECK(strstr(given, "#SBATCH --cpus-per-task=16\n"));
    a->request.sbatch = "qos=long";
    CHECK(attempt(a, usual_words) == ERR_USAGE);
    a->request.sbatch = "--qos=long\nreboot";
    CHECK(attempt(a, usual_words) == ERR_USAGE);
    a = asking(LAUNCH_SCRIPT);
    a->request.sbatch = "--qos=long";
    CHECK(attempt(a, usual_words) == ERR_USAGE);
}

TEST(launch_requests_cpus_and_memory_of_kubernetes)
{
    struct asking *a = asking(LAUNCH_K8S);
    a->request.image = "mine/trainer:1";
    a->place.gpus_per_node = 2;
    a->plan.host_bytes = 16 * 1073741824.0;
    const char *file = file_of(a, usual_words); // 2 × (16 GiB + 1.25 × 16 GiB)
    CHECK(strstr(file, "requests:\n              cpu: 14\n              memory: 72Gi\n"));
    CHECK(notes(&a->job, "14 CPUs and 72 GiB") && !notes(&a->job, "a pod that is lost"));
    CHECK(strstr(file, "backoffLimit: 3\n"));
    a->place.nodes = 4; // one loss may fail the lost pod twice and each of the others once
    CHECK(strstr(file_of(a, usual_words), "of these failures.\n  backoffLimit: 15\n"));
    CHECK(notes(&a->job, "a pod that is lost"));
    CHECK(notes(&a->job, "begins at step 0")); // without a claim, the output is lost with the pod
    a->request.output = "results";
    CHECK(!strstr(file_of(a, usual_words), "lost with the pod"));
    CHECK(!notes(&a->job, "begins at step 0"));
}
