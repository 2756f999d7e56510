// SPDX-License-Identifier: Apache-2.0
// asking: a plan of eight H100s in a test, what is asked for, and the job file that comes of it.

#pragma once

#include "core/launch/launch.h"

#include "test/core/hosting/comparing.h"

static const char launch_document[] =
    "{\"kind\":\"plan\",\"configuration\":{\"model\":\"llama-3.1-8b\",\"stack\":\"hf-peft\","
    "\"gpu\":\"h100-sxm\",\"gpus\":8,\"nodes\":1,\"context\":2048,\"micro_batch\":2,"
    "\"global_batch\":64,\"method\":\"lora\",\"rank\":16,\"targets\":\"all-linear\"},"
    "\"workload\":{\"tokens\":21400000,\"epochs\":3,\"steps\":500},\"step\":{\"seconds\":2},"
    "\"wall_hours\":{\"p10\":1,\"p50\":2,\"p90\":3},"
    "\"gpu_hours_percentiles\":[{\"percentile\":90,\"gpu_hours\":24},"
    "{\"percentile\":95,\"gpu_hours\":32}],"
    "\"assumptions\":[{\"name\":\"save interval\",\"value\":600}]}";

struct asking {
    struct launch_request request;
    struct launch_plan plan;
    struct launch_place place;
    struct launch job;
    double data_bytes;
};

static inline struct asking *asking(enum launch_to to)
{
    struct asking *a = ARENA_NEW(&test_arena, struct asking, 1);
    CHECK(!launch_plan_read(&a->plan, &test_arena, text_of(launch_document), "plan.json"));
    a->place = launch_place_of_plan(&a->plan);
    a->request = (struct launch_request){ .to = to };
    if (to == LAUNCH_K8S)
        a->request.image = "registry/trainer:1";
    return a;
}

static inline enum err attempt(struct asking *a, char *const *words)
{
    struct launch_input input = { &a->request, &a->plan, &a->place, words, a->data_bytes };
    return launch_make(&a->job, &test_arena, &input);
}

static inline const char *file_of(struct asking *a, char *const *words)
{
    struct out out = { .arena = &test_arena };
    enum err err = attempt(a, words);
    test_check(!err, err ? error_text() : "", "launch_make", 0);
    if (!err)
        launch_file(&a->job, &out);
    return out_string(&out);
}

static char *const usual_words[] = { "torchrun", "train.py", NULL };

static inline bool notes(const struct launch *job, const char *words)
{
    for (size_t i = 0; i < job->note_count; i++)
        if (strstr(job->notes[i], words))
            return true;
    return false;
}
