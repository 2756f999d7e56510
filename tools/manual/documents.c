// The tables of the documents. Long because every key of every document stands here once.

#include "tools/manual/documents.h"
#include "core/data/profile.h"
#include "core/measured/history.h"
#include "core/plan/plan.h"
#include "train/training_metrics.h"

#define KEY(path_, type_, ...)                            \
    {                                                     \
        .path = path_, .type = type_, .help = __VA_ARGS__ \
    }
#define RANGE(path_, ...)                                        \
    {                                                            \
        .path = path_, .names = percentiles, .help = __VA_ARGS__ \
    }
#define SPAN(path_, ...)                                  \
    {                                                     \
        .path = path_, .names = span, .help = __VA_ARGS__ \
    }
#define TABLE(path_, table, ...)                    \
    {                                               \
        .path = path_, .fields = table, __VA_ARGS__ \
    }
#define KEYS(path_, list, ...)                   \
    {                                            \
        .path = path_, .keys = list, __VA_ARGS__ \
    }

static const char *const percentiles[] = { "p10", "p50", "p90", NULL };
static const char *const span[] = { "low", "typical", "high", NULL };
static const char *const quality[] = {
    "median_error", "p90_error", "coverage", "unsafe", "n", NULL
};
static const char *const coverage[] = { "n", "inside", "coverage", "median_error", NULL };

// --- shared by documents -----------------------------------------------------

static const struct documents_key configuration[] = {
    KEY("model", "string", "model, as in the catalog or a folder"),
    KEY("stack", "string", "training stack"),
    KEY("gpu", "string", "GPU, as in the catalog"),
    KEY("gpus", "integer", "number of GPUs"),
    KEY("nodes", "integer", "number of machines"),
    KEY("parallel", "string", "parallel layout: single, ddp8, fsdp8, …"),
    KEY("context", "number", "context window, in tokens"),
    KEY("batching", "string", "how rows form batches"),
    KEY("micro_batch", "number", "rows per GPU and forward pass"),
    KEY("accumulation", "number", "micro-batches per step"),
    KEY("global_batch", "number", "rows per optimizer step"),
    TABLE("", recipe_fields),
    { 0 },
};

static const struct documents_key memory_configuration[] = {
    KEY("model", "string", "model, as in the catalog or a folder"),
    KEY("stack", "string", "training stack"),
    KEY("gpu", "string", "GPU, as in the catalog"),
    KEY("gpus", "integer", "number of GPUs"),
    KEY("parallel", "string", "parallel layout"),
    KEY("context", "number", "context window, in tokens"),
    KEY("micro_batch", "number", "rows per GPU and forward pass"),
    KEY("accumulation", "number", "micro-batches per step"),
    TABLE("", recipe_fields),
    { 0 },
};

static const struct documents_key memory_keys[] = {
    KEY("fits", "boolean", "whether it fits into the GPU"),
    KEY("allocated_bytes", "number", "peak that the stack's allocator hands out, per GPU"),
    KEY("reserved_bytes", "number", "peak that the allocator holds, per GPU"),
    KEY("total_bytes", "number", "what nvidia-smi would show at the peak, per GPU"),
    KEY("device_bytes", "number", "memory of the GPU"),
    KEY("host_bytes", "number", "host memory needed, per GPU"),
    RANGE("total_range_bytes", "total_bytes as a range"),
    KEY("moment", "string", "part of the step with the peak"),
    KEY("parts", "array", "what the peak consists of"),
    KEY("parts[].name", "string", "weights, gradients, activations, …"),
    KEY("parts[].bytes", "number", "bytes of this part"),
    { 0 },
};

static const struct documents_key assumptions[] = {
    KEY("name", "string", "what is assumed"),
    KEY("value", "number", "median"),
    KEY("low", "number", "10th percentile", .when = "if it is a range"),
    KEY("high", "number", "90th percentile", .when = "if it is a range"),
    KEY("unit", "string", "unit of the numbers"),
    KEY("origin", "string", "measured, catalog, assumed, given or ledger"),
    KEY("source", "string", "who says so"),
    KEY("as_of", "string", "date of the source"),
    { 0 },
};

static const struct documents_key from[] = {
    KEY("files", "array", "configurations that were read"),
    KEY("files[].name", "string", "path"),
    KEY("files[].trainer", "string", "trainer that it belongs to"),
    KEY("understood", "array", "keys that set an option"),
    KEY("understood[].file", "string", "path"),
    KEY("understood[].key", "string", "key in the file"),
    KEY("understood[].value", "string", "value in the file"),
    KEY("understood[].option", "string", "option that it sets"),
    KEY("understood[].becomes", "string", "value of the option"),
    KEY("understood[].beaten", "boolean", "whether the command line overrides it"),
    KEY("understood[].remark", "string", "remark"),
    KEY("ignored", "array", "keys that set none"),
    KEY("ignored[].file", "string", "path"),
    KEY("ignored[].key", "string", "key in the file"),
    KEY("ignored[].value", "string", "value in the file"),
    KEY("ignored[].effect", "string", "whether it matters for time or memory"),
    KEY("ignored[].remark", "string", "remark"),
    KEY("contradictions", "array", "sentences on values that contradict each other"),
    { 0 },
};

static const struct documents_key batch[] = {
    KEY("rows", "number", "rows of the micro-batch"),
    KEY("width", "number", "its width, in tokens"),
    KEY("tokens", "number", "tokens with padding"),
    { 0 },
};

static const struct documents_key full_batch[] = {
    KEYS("", batch),
    KEY("squares", "number", "sum of squared lengths"),
    KEY("labelled", "number", "tokens that carry loss"),
    { 0 },
};

static const struct documents_key search_result[] = {
    KEY("why", "string", "what it is best at, or what changes"),
    KEY("wall_hours", "number", "median wall hours"),
    KEY("gpu_hours", "number", "median GPU hours"),
    KEY("cost_usd", "number", "median cost; null without a price"),
    KEY("tokens_per_second", "number", "processed tokens per second, over all GPUs"),
    KEY("total_bytes", "number", "memory per GPU at the peak"),
    KEY("stable", "boolean", "whether it fits with room to spare"),
    KEYS("configuration", configuration),
    { 0 },
};

// --- plan --------------------------------------------------------------------

static const struct documents_key plan_keys[] = {
    KEY("kind", "string", "\"plan\""),
    KEY("version", "integer", "1"),
    TABLE("request", plan_fields, .when = "if the option was given"),
    TABLE("request", recipe_fields, .when = "if the option was given"),
    KEY("workload.examples", "number", "examples in the data set"),
    KEY("workload.tokens", "number", "tokens in the data set, counted once"),
    KEY("workload.labelled_tokens", "number", "tokens that carry loss"),
    KEY("workload.epochs", "number", "passes over the data"),
    KEY("workload.processed_tokens", "number", "tokens of the whole run, with padding"),
    KEY("workload.padding_share", "number", "share of processed tokens that is padding"),
    KEY("workload.steps", "number", "optimizer steps"),
    KEY("workload.mean_length", "number", "mean length of an example, in tokens"),
    KEYS("workload.batch", full_batch),
    KEYS("workload.worst", full_batch),
    KEY("workload.measured", "boolean", "whether lengths come from the data"),
    KEYS("memory", memory_keys),
    RANGE("tokens_per_second", "processed tokens per second over all GPUs, during steps"),
    KEY("roofline_tokens_per_second", "number", "the same at the limits of the hardware"),
    RANGE("wall_hours", "hours from start to end, with overheads"),
    RANGE("gpu_hours", "wall hours times GPUs"),
    RANGE("cost_usd", "cost; null without a price"),
    KEYS("configuration", configuration),
    KEY("gpu_hours_percentiles", "array", "distribution of GPU hours"),
    KEY("gpu_hours_percentiles[].percentile", "number", "percentile, 0 to 100"),
    KEY("gpu_hours_percentiles[].gpu_hours", "number", "GPU hours"),
    KEY("step.seconds", "number", "duration of a step"),
    KEY("step.roofline_seconds", "number", "the same at the limits of the hardware"),
    KEY("step.flops", "number", "floating-point operations of a step, per GPU"),
    KEY("step.peak_share", "number", "share of the GPU's peak that is reached"),
    KEY("step.peak_flops_per_second", "number", "peak of the GPU"),
    KEY("step.sustained_flops_per_second", "number", "best matrix product of the GPU"),
    KEY("step.memory_bytes_per_second", "number", "memory bandwidth of the GPU"),
    KEYS("step.batch", batch),
    KEYS("step.worst_batch", batch),
    KEY("step.parts", "array", "what the step consists of"),
    KEY("step.parts[].name", "string", "part"),
    KEY("step.parts[].seconds", "number", "duration"),
    KEY("step.operations", "array", "the longest operations"),
    KEY("step.operations[].name", "string", "operation"),
    KEY("step.operations[].kind", "string", "product, attention, elementwise, …"),
    KEY("step.operations[].seconds", "number", "duration"),
    KEY("step.operations[].flops", "number", "floating-point operations"),
    KEY("step.operations[].bytes", "number", "bytes moved"),
    KEY("drivers", "array", "what makes the range wide, most first"),
    KEY("drivers[].name", "string", "assumption"),
    KEY("drivers[].gpu_hours_low", "number", "GPU hours at its 10th percentile"),
    KEY("drivers[].gpu_hours_high", "number", "GPU hours at its 90th percentile"),
    RANGE("drivers[].gpu_hours_if_known", "GPU hours if it were known exactly"),
    KEY("drivers[].measurement", "string", "how to measure it"),
    KEY("overheads", "array", "time outside of training steps"),
    KEY("overheads[].name", "string", "kind of overhead"),
    KEY("overheads[].seconds", "number", "seconds over the whole run"),
    KEY("alternatives", "array", "other configurations"),
    KEYS("alternatives[]", search_result),
    KEY("scaling", "array", "the same GPU in other numbers"),
    KEYS("scaling[]", search_result),
    KEY("pareto", "array", "best trade-offs of time and cost"),
    KEYS("pareto[]", search_result),
    KEY("search.considered", "integer", "configurations considered", .when = "with --search"),
    KEY("search.fitting", "integer", "configurations that fit", .when = "with --search"),
    KEY("assumptions", "array", "every assumption with its origin"),
    KEYS("assumptions[]", assumptions),
    KEY("warnings", "array", "mistakes and risks"),
    KEY("warnings[].code", "string", "stable name of the warning"),
    KEY("warnings[].text", "string", "what is wrong and how to fix it"),
    KEYS("from", from, .when = "with --from"),
    { 0 },
};

// --- profile, packed ---------------------------------------------------------

static const struct documents_key spot[] = {
    KEY("file", "string", "path"),
    KEY("line", "integer", "line or row"),
    { 0 },
};

static const struct documents_key profile_keys[] = {
    KEY("kind", "string", "\"profile\""),
    KEY("version", "integer", "1"),
    KEY("examples", "integer", "examples"),
    KEY("tokens", "integer", "tokens"),
    KEY("labelled_tokens", "integer", "tokens that carry loss"),
    KEY("rows", "integer", "rows read, unusable ones included"),
    KEY("bad_rows", "integer", "unusable rows"),
    KEY("empty_examples", "integer", "examples without a token"),
    KEY("unlabelled_examples", "integer", "examples without a labelled token"),
    KEY("duplicate_examples", "integer", "examples that occurred before"),
    KEY("duplicates_exact", "boolean", "whether duplicates were counted over all files"),
    KEY("text_bytes", "integer", "bytes of the rendered text"),
    KEY("format", "string", "format of the rows"),
    KEY("labels", "string", "which tokens carry loss"),
    KEY("template", "string", "chat template; null: none"),
    KEY("tokenizer.name", "string", "tokenizer"),
    KEY("tokenizer.exact", "boolean", "whether it is the model's own"),
    KEY("tokenizer.spread", "number", "relative standard deviation of an estimate; 0 if exact"),
    KEY("files", "array", "files that were read"),
    KEY("files[].name", "string", "path"),
    KEY("files[].bytes", "integer", "size"),
    KEY("length.mean", "number", "mean length, in tokens"),
    KEY("length.p50", "integer", "median"),
    KEY("length.p90", "integer", "90th percentile"),
    KEY("length.p95", "integer", "95th percentile"),
    KEY("length.p99", "integer", "99th percentile"),
    KEY("length.max", "integer", "longest"),
    KEY("length.histogram", "array", "rows of numbers: lengths and how often they occur"),
    KEY("length.histogram[]", "array", "bin: tokens, examples, labelled tokens"),
    KEY("contexts", "array", "context windows compared"),
    TABLE("contexts[]", window_fields),
    KEY("recommended_context", "integer", "recommended context window, in tokens"),
    KEY("recommended_because", "string", "why"),
    TABLE("batches", profile_settings_fields),
    KEY("batches.order", "string", "file or shuffled"),
    TABLE("batches", batches_fields),
    KEY("look_at.longest", "array", "longest examples"),
    KEYS("look_at.longest[]", spot),
    KEY("look_at.longest[].tokens", "integer", "tokens"),
    KEY("look_at.bad", "array", "first unusable rows"),
    KEYS("look_at.bad[]", spot, .when = "if there are any"),
    KEY("look_at.bad[].problem", "string", "what is wrong", .when = "if there are any"),
    KEY("look_at.empty", "array", "first empty examples"),
    KEYS("look_at.empty[]", spot, .when = "if there are any"),
    KEY("look_at.unlabelled", "array", "first examples without a labelled token"),
    KEYS("look_at.unlabelled[]", spot, .when = "if there are any"),
    KEY("look_at.duplicate", "array", "first duplicates"),
    KEYS("look_at.duplicate[]", spot, .when = "if there are any"),
    { 0 },
};

static const struct documents_key packed_keys[] = {
    KEY("kind", "string", "\"packed\""),
    KEY("version", "integer", "1"),
    KEY("rows", "integer", "packed rows"),
    KEY("documents", "integer", "examples or parts of them in the rows"),
    KEY("tokens", "integer", "tokens"),
    KEY("labelled_tokens", "integer", "tokens that carry loss"),
    KEY("examples", "integer", "examples read"),
    KEY("bad_rows", "integer", "unusable rows"),
    TABLE("", profile_settings_fields),
    KEY("steps", "integer", "optimizer steps per epoch"),
    KEY("fill", "number", "tokens over rows times context"),
    KEY("vocabulary", "integer", "tokens that the tokenizer knows"),
    KEY("tokenizer.name", "string", "tokenizer"),
    KEY("tokenizer.exact", "boolean", "whether it is the model's own"),
    KEY("template", "string", "chat template; null: none"),
    KEY("labels", "string", "which tokens carry loss"),
    KEY("files.ids", "string", "token ids, int32"),
    KEY("files.labels", "string", "1 where a token carries loss, uint8"),
    KEY("files.rows", "string", "first token of each row, int64"),
    KEY("files.documents", "string", "first token of each document, int64"),
    { 0 },
};

// --- memory ------------------------------------------------------------------

static const struct documents_key memory_document[] = {
    KEY("kind", "string", "\"memory\""),
    KEY("version", "integer", "1"),
    KEYS("memory", memory_keys),
    KEYS("configuration", memory_configuration),
    KEY("largest", "array", "what fits, for each kind of activation checkpointing"),
    KEY("largest[].checkpointing", "string", "none, selective or full"),
    KEY("largest[].micro_batch", "integer", "largest micro-batch at this context; 0: none fits"),
    KEY("largest[].context", "integer", "largest context at this micro-batch; 0: none fits"),
    KEYS("from", from, .when = "with --from"),
    { 0 },
};

// --- hosts -------------------------------------------------------------------

static const struct documents_key hosts_keys[] = {
    KEY("kind", "string", "\"hosts\""),
    KEY("version", "integer", "1"),
    KEY("today", "string", "date from which ages of prices are counted"),
    KEY("deadline_hours", "number", "--deadline"),
    KEY("budget_usd", "number", "--budget"),
    KEY("hour_is_worth_usd", "number", "--hour-is-worth"),
    KEY("runs_per_month", "number", "runs of the job per month"),
    KEY("runs_assumed", "boolean", "whether that was assumed"),
    KEY("draws", "integer", "samples of the simulation"),
    KEY("offers_held_against_the_job", "integer", "offers considered"),
    KEY("estimates", "integer", "distinct configurations that were estimated"),
    KEY("formulas", "array", "formulas in words"),
    KEY("picks.recommended", "integer", "index in rows", .when = "if there is one"),
    KEY("picks.cheapest_in_time", "integer", "index in rows", .when = "if there is one"),
    KEY("picks.fastest_in_budget", "integer", "index in rows", .when = "if there is one"),
    KEY("picks.smallest", "integer", "index in rows", .when = "if there is one"),
    KEY("picks.reason", "string", "why this one is recommended"),
    KEY("advice", "array", "sentences"),
    KEY("assumptions", "array", "every assumption with its origin"),
    KEYS("assumptions[]", assumptions),
    KEY("rows", "array", "offers, best first"),
    KEY("rows[].provider", "string", "provider"),
    KEY("rows[].instance", "string", "instance type"),
    KEY("rows[].region", "string", "region"),
    KEY("rows[].kind", "string",
        "on-demand, spot, reserved-1y, reserved-3y, colocation or managed"),
    KEY("rows[].gpu", "string", "GPU"),
    KEY("rows[].gpus", "integer", "GPUs that the job uses"),
    KEY("rows[].instance_gpus", "integer", "GPUs of an instance"),
    KEY("rows[].instances", "integer", "instances"),
    KEY("rows[].price_kind", "string", "firm, auction, median, reservation or block"),
    KEY("rows[].notes", "string", "remark of the catalog", .when = "if it has one"),
    KEY("rows[].not_recommended", "string", "why it is never recommended", .when = "if it is not"),
    KEY("rows[].rank_usd", "number", "what rows are ordered by"),
    KEY("rows[].limit", "string", "what limits the job there"),
    KEY("rows[].in_time", "boolean", "within --deadline"),
    KEY("rows[].in_budget", "boolean", "within --budget"),
    KEY("rows[].pareto", "boolean", "no other row is faster and cheaper"),
    KEY("rows[].chance_in_time", "number", "probability of meeting the deadline"),
    RANGE("rows[].run_hours", "hours of the run"),
    RANGE("rows[].gpu_hours", "GPU hours"),
    RANGE("rows[].billed_hours", "hours billed per instance"),
    RANGE("rows[].queue_hours", "hours until it starts"),
    RANGE("rows[].elapsed_hours", "hours from now to the result"),
    RANGE("rows[].compute_usd", "cost of the instances"),
    RANGE("rows[].cost_usd", "cost with data movement"),
    KEY("rows[].time.parallel", "string", "parallel layout"),
    KEY("rows[].time.micro_batch", "number", "rows per GPU and forward pass"),
    KEY("rows[].time.checkpointing", "string", "activation checkpointing"),
    KEY("rows[].time.memory_bytes", "number", "memory per GPU at the peak"),
    KEY("rows[].time.stable", "boolean", "whether it fits with room to spare"),
    KEY("rows[].time.processed_tokens", "number", "tokens of the run, with padding"),
    KEY("rows[].time.roofline_tokens_per_second", "number",
        "throughput at the limits of the hardware"),
    KEY("rows[].time.tokens_per_second", "number", "throughput, over all GPUs"),
    KEY("rows[].time.exposed_communication_share", "number",
        "share of a step that waits for the network"),
    KEY("rows[].time.seconds", "array", "parts of the run"),
    KEY("rows[].time.seconds[].name", "string", "part"),
    KEY("rows[].time.seconds[].seconds", "number", "seconds"),
    KEY("rows[].time.run_seconds", "number", "their sum"),
    KEY("rows[].needs.host_bytes", "number", "host memory needed"),
    KEY("rows[].needs.host_has_bytes", "number", "host memory of the instance"),
    KEY("rows[].needs.disk_bytes", "number", "disk needed"),
    KEY("rows[].needs.disk_has_bytes", "number", "disk of the instance"),
    KEY("rows[].price.list_usd_per_instance_hour", "number", "list price"),
    KEY("rows[].price.discount", "number", "--discount"),
    KEY("rows[].price.usd_per_instance_hour", "number", "price used"),
    KEY("rows[].price.spot_high_usd_per_instance_hour", "number",
        "spot price of the most expensive zone", .when = "for spot"),
    KEY("rows[].price.as_of", "string", "date of the price"),
    KEY("rows[].price.age_days", "number", "its age"),
    KEY("rows[].price.stale", "boolean", "whether it is old"),
    KEY("rows[].price.log_spread", "number", "standard deviation of its logarithm"),
    KEY("rows[].price.granularity_seconds", "number", "unit of billing"),
    KEY("rows[].price.minimum_seconds", "number", "shortest time billed"),
    KEY("rows[].price.terms_confidence", "string", "confidence in these terms; low: assumed",
        .when = "unless the offer gives them"),
    KEY("rows[].price.terms_source", "string", "where they come from",
        .when = "unless the offer gives them"),
    KEY("rows[].price.source", "string", "where the price comes from"),
    KEY("rows[].move.dataset_bytes", "number", "size of the data set"),
    KEY("rows[].move.model_bytes", "number", "size of the model"),
    KEY("rows[].move.result_bytes", "number", "size of the result"),
    KEY("rows[].move.link_bytes_per_second", "number", "throughput of moving data"),
    KEY("rows[].move.in_usd_per_gb", "number", "price of moving data in"),
    KEY("rows[].move.out_usd_per_gb", "number", "price of moving data out"),
    KEY("rows[].move.in_usd", "number", "cost of moving data in"),
    KEY("rows[].move.out_usd", "number", "cost of moving data out"),
    KEY("rows[].move.in_hours", "number", "hours of moving data in"),
    KEY("rows[].move.out_hours", "number", "hours of moving data out"),
    KEY("rows[].spot.work_seconds", "number", "work without saves and restarts",
        .when = "for spot"),
    KEY("rows[].spot.save_seconds", "number", "duration of a checkpoint", .when = "for spot"),
    KEY("rows[].spot.restart_seconds", "number", "time from a new instance to the first step",
        .when = "for spot"),
    KEY("rows[].spot.preemptions_per_second", "number", "rate of preemptions", .when = "for spot"),
    KEY("rows[].spot.wait_seconds", "number", "wait for a new instance", .when = "for spot"),
    KEY("rows[].spot.saves", "number", "checkpoints", .when = "for spot"),
    KEY("rows[].spot.interval_seconds", "number", "work between checkpoints", .when = "for spot"),
    KEY("rows[].spot.young_daly_seconds", "number", "the interval by Young and Daly",
        .when = "for spot"),
    KEY("rows[].spot.expected_billed_seconds", "number", "expected billed time",
        .when = "for spot"),
    KEY("rows[].spot.expected_wall_seconds", "number", "expected wall time", .when = "for spot"),
    KEY("rows[].spot.expected_preemptions", "number", "expected preemptions", .when = "for spot"),
    KEY("rows[].spot.expected_usd", "number", "expected cost", .when = "for spot"),
    KEY("rows[].spot.on_demand_usd", "number", "the same on demand", .when = "for spot"),
    KEY("rows[].commitment.sets", "number", "commitments side by side", .when = "for reserved"),
    KEY("rows[].commitment.usd", "number", "money committed", .when = "for reserved"),
    KEY("rows[].commitment.break_even_runs_per_month", "number",
        "runs above which it is cheaper than the best offer by the hour", .when = "for reserved"),
    KEY("rows[].commitment.rent_usd_per_run", "number", "cost of a run with that offer",
        .when = "for reserved"),
    KEY("rows[].commitment.break_even_use", "number", "share of hours that must be used",
        .when = "for reserved"),
    KEY("rows[].commitment.break_even_hours_per_month", "number", "the same in hours",
        .when = "for reserved"),
    SPAN("rows[].ownership.server_usd", "price of a server", .when = "for colocation"),
    SPAN("rows[].ownership.years", "years of use", .when = "for colocation"),
    SPAN("rows[].ownership.kilowatts", "power of a server", .when = "for colocation"),
    SPAN("rows[].ownership.pue", "power of the building over that of the server",
         .when = "for colocation"),
    SPAN("rows[].ownership.usd_per_kwh", "price of electricity", .when = "for colocation"),
    SPAN("rows[].ownership.usd_per_kw_month", "colocation price", .when = "for colocation"),
    KEY("rows[].ownership.resale_share", "number",
        "share of its price that an old server sells for", .when = "for colocation"),
    KEY("rows[].ownership.capital_per_year", "number", "cost of capital", .when = "for colocation"),
    KEY("rows[].ownership.operations_per_year", "number", "operations, as a share of the price",
        .when = "for colocation"),
    KEY("rows[].ownership.idle_share", "number", "power when idle", .when = "for colocation"),
    KEY("rows[].ownership.draw_share", "number", "power when training", .when = "for colocation"),
    KEY("rows[].ownership.utilization", "number", "share of hours in use",
        .when = "for colocation"),
    KEY("rows[].ownership.confidence", "string", "confidence in the price",
        .when = "for colocation"),
    KEY("rows[].ownership.terms", "array", "monthly cost by part", .when = "for colocation"),
    KEY("rows[].ownership.terms[].name", "string", "part", .when = "for colocation"),
    SPAN("rows[].ownership.terms[].usd_per_month", "cost per month", .when = "for colocation"),
    KEY("rows[].ownership.terms[].confidence", "string", "confidence", .when = "for colocation"),
    KEY("rows[].ownership.terms[].source", "string", "source", .when = "for colocation"),
    SPAN("rows[].ownership.usd_per_month", "sum of the parts", .when = "for colocation"),
    KEY("rows[].ownership.usd_per_gpu_hour_by_use", "array", "cost by utilization",
        .when = "for colocation"),
    KEY("rows[].ownership.usd_per_gpu_hour_by_use[].use", "number", "share of hours in use",
        .when = "for colocation"),
    SPAN("rows[].ownership.usd_per_gpu_hour_by_use[].usd", "cost per GPU hour",
         .when = "for colocation"),
    KEY("rows[].ownership.rent_usd_per_gpu_hour", "number", "rent to compare with",
        .when = "for colocation"),
    KEY("rows[].ownership.break_even_use", "number", "utilization at which owning is cheaper",
        .when = "for colocation"),
    KEY("rows[].ownership.months_to_pay_back_at_full_use", "number", "months to pay back",
        .when = "for colocation"),
    KEY("rows[].managed_tokens", "number", "tokens that the service bills", .when = "for managed"),
    KEY("rows[].usd_per_million_tokens", "number", "price of the service", .when = "for managed"),
    { 0 },
};

// --- pilot: its tables are those of core/measured/pilot.h --------------------

static const struct documents_key pilot_keys[] = {
    KEY("kind", "string", "\"pilot\""),
    KEY("version", "integer", "1"),
    KEYS("from", from, .when = "with --from"),
    { 0 },
};

// --- runs --------------------------------------------------------------------

static const struct documents_key ledger_keys[] = {
    KEY("kind", "string", "\"ledger\""),
    KEY("version", "integer", "1"),
    KEY("runs", "array", "entries, newest first"),
    TABLE("runs[]", history_fields),
    { 0 },
};

static const struct documents_key coverage_keys[] = {
    KEY("kind", "string", "\"coverage\""),
    KEY("version", "integer", "1"),
    { .path = "summary.*",
      .names = coverage,
      .help = "of all runs: how many, how many inside the 80 % range, that share, and the median "
              "error as a factor" },
    KEY("rows", "array", "the same by stack and GPU"),
    KEY("rows[].stack", "string", "training stack", .when = "if there are runs"),
    KEY("rows[].gpu", "string", "GPU", .when = "if there are runs"),
    { .path = "rows[].*", .names = coverage, .help = "as in summary", .when = "if there are runs" },
    { 0 },
};

static const struct documents_key run_keys[] = {
    KEY("kind", "string", "\"run\""),
    KEY("version", "integer", "1"),
    KEY("as_of", "string", "date"),
    KEY("complete", "boolean", "whether it came to its last step"),
    KEY("exit_code", "integer", "exit code of the trainer"),
    KEY("steps", "number", "steps done"),
    KEY("planned_steps", "number", "steps of the plan"),
    KEY("processed_tokens", "number", "tokens processed, with padding"),
    KEY("wall_hours", "number", "hours from start to end"),
    KEY("gpu_hours", "number", "wall hours times GPUs"),
    KEY("cost_usd", "number", "cost at the plan's price"),
    KEY("place_in_plan", "string", "inside, above or below the plan's range"),
    KEY("tokens_per_second.mean", "number", "tokens per second over all GPUs"),
    KEY("tokens_per_second.low", "number", "lower end of the 90 % confidence interval"),
    KEY("tokens_per_second.high", "number", "upper end of it"),
    RANGE("planned.tokens_per_second", "as in the plan"),
    RANGE("planned.wall_hours", "as in the plan"),
    RANGE("planned.gpu_hours", "as in the plan"),
    RANGE("planned.cost_usd", "as in the plan"),
    KEY("peak_bytes", "number", "peak device memory"),
    KEY("loss", "number", "last loss"),
    KEYS("configuration", configuration),
    { 0 },
};

// --- validation --------------------------------------------------------------

static const struct documents_key quality_keys[] = {
    { .path = "tokens_per_second", .names = quality, .help = "throughput" },
    { .path = "memory",
      .names = quality,
      .help = "peak memory; unsafe: predictions below the measurement" },
    { .path = "wall_hours", .names = quality, .help = "wall hours" },
    { 0 },
};

static const struct documents_key validation_keys[] = {
    KEY("kind", "string", "\"validation\""),
    KEY("version", "integer", "1"),
    KEYS("summary", quality_keys),
    KEYS("by_method.*", quality_keys),
    KEYS("by_gpu.*", quality_keys),
    KEYS("by_stack.*", quality_keys),
    KEYS("by_source.*", quality_keys),
    KEY("rows", "array", "runs"),
    KEY("rows[].id", "string", "name of the run"),
    KEY("rows[].source", "string", "where it was published"),
    KEY("rows[].understood", "boolean", "whether it could be predicted"),
    KEY("rows[].reason", "string", "why not", .when = "if not understood"),
    KEY("rows[].stack", "string", "training stack"),
    KEY("rows[].gpu", "string", "GPU"),
    RANGE("rows[].predicted.tokens_per_second", "predicted throughput"),
    RANGE("rows[].predicted.memory_bytes", "predicted peak memory"),
    RANGE("rows[].predicted.wall_hours", "predicted wall hours"),
    KEY("rows[].measured.tokens_per_second", "number", "measured throughput"),
    KEY("rows[].measured.memory_bytes", "number", "measured peak memory"),
    KEY("rows[].measured.wall_hours", "number", "measured wall hours"),
    KEY("rows[].error.tokens_per_second", "number", "factor between both: 1.08 is 8 % off"),
    KEY("rows[].error.memory_bytes", "number", "factor between both"),
    KEY("rows[].error.wall_hours", "number", "factor between both"),
    KEY("rows[].inside.tokens_per_second", "boolean", "inside the 80 % range",
        .when = "if it was measured"),
    KEY("rows[].inside.memory_bytes", "boolean", "inside the 80 % range",
        .when = "if it was measured"),
    KEY("rows[].inside.wall_hours", "boolean", "inside the 80 % range",
        .when = "if it was measured"),
    { 0 },
};

// --- metrics, merge, report, catalogs ----------------------------------------

static const struct documents_key metrics_keys[] = {
    TABLE("", training_metrics_fields),
    { 0 },
};

static const struct documents_key merge_keys[] = {
    KEY("out", "string", "folder that was written"),
    KEY("folded", "integer", "linear layers merged"),
    KEY("replaced", "integer", "weights replaced by trained ones"),
    KEY("copied", "integer", "weights copied from the base"),
    KEY("dequantized", "boolean", "whether the base was quantized"),
    KEY("bytes", "number", "bytes written"),
    { 0 },
};

static const struct documents_key report_keys[] = {
    KEY("kind", "string", "\"report\""),
    KEY("version", "integer", "1"),
    KEY("title", "string", "title"),
    KEY("documents", "array", "paths of the documents"),
    KEY("sections", "array", "sections in order"),
    KEY("sections[].id", "string", "stable name"),
    KEY("sections[].part", "string", "part of the report"),
    KEY("sections[].title", "string", "heading"),
    KEY("sections[].text", "string", "text"),
    KEY("sections[].charts", "array", "charts"),
    KEY("sections[].charts[].title", "string", "heading"),
    KEY("sections[].charts[].kind", "string", "kind of chart"),
    KEY("sections[].charts[].text", "string", "what it shows, in words"),
    KEY("sections[].charts[].x", "string", "title of the x axis"),
    KEY("sections[].charts[].y", "string", "title of the y axis"),
    KEY("sections[].charts[].series", "array", "series"),
    KEY("sections[].charts[].series[].name", "string", "name"),
    KEY("sections[].charts[].series[].points", "array", "points"),
    KEY("sections[].charts[].series[].points[].label", "string", "label"),
    KEY("sections[].charts[].series[].points[].x", "number", "x"),
    KEY("sections[].charts[].series[].points[].y", "number", "y"),
    KEY("sections[].charts[].series[].points[].low", "number", "lower end of a range"),
    KEY("sections[].charts[].series[].points[].high", "number", "upper end of a range"),
    KEY("sections[].tables", "array", "tables: rows of cells, the first row the heading"),
    KEY("sections[].tables[]", "array", "table"),
    KEY("sections[].tables[][]", "array", "row"),
    { 0 },
};

#define CATALOG_KEYS(kind, fields)                                                       \
    (const struct documents_key[])                                                       \
    {                                                                                    \
        KEY("kind", "string", "\"" kind "\""), KEY("version", "integer", "1"),           \
            KEY("rows", "array", "rows of the catalog"), TABLE("rows[]", fields), { 0 }, \
    }

const struct documents_document documents[] = {
    { "plan", "gpuhours plan --json", plan_keys },
    { "profile", "gpuhours profile --json, and its file", profile_keys },
    { "memory", "gpuhours memory --json", memory_document },
    { "pilot", "gpuhours pilot --json, and its file", pilot_keys },
    { "hosts", "gpuhours hosts --json", hosts_keys },
    { "run",
      "gpuhours watch --json and --out; entries of train and of runs actual in the ledger "
      "have some of these keys",
      run_keys },
    { "ledger", "gpuhours runs --json, runs show --json, runs compare --json and runs export",
      ledger_keys },
    { "coverage", "gpuhours runs coverage --json", coverage_keys },
    { "validation", "gpuhours validate --json", validation_keys },
    { "metrics", "metrics.jsonl of gpuhours train: an object per step", metrics_keys },
    { "packed", "gpuhours pack --json, and index.json of its folder", packed_keys },
    { "merge", "gpuhours merge --json", merge_keys },
    { "report", "gpuhours report --json", report_keys },
    { "models", "gpuhours show models --json", CATALOG_KEYS("models", model_fields) },
    { "gpus", "gpuhours show gpus --json", CATALOG_KEYS("gpus", gpu_fields) },
    { "nodes", "gpuhours show nodes --json", CATALOG_KEYS("nodes", node_fields) },
    { "offers", "gpuhours show offers --json", CATALOG_KEYS("offers", offer_fields) },
    { "operations", "gpuhours show operations --json", CATALOG_KEYS("operations", fact_fields) },
    { "colocation", "gpuhours show colocation --json", CATALOG_KEYS("colocation", fact_fields) },
    { "stacks", "gpuhours show stacks --json", CATALOG_KEYS("stacks", stack_fields) },
    { 0 },
};
