// SPDX-License-Identifier: Apache-2.0
// The images of a plan: counted in the data, or of a given size; and what they cost, in words and
// in the document.

#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

// A model that reads text alone has no use for images.
static enum err check_model(const struct plan *plan)
{
    const struct plan_request *request = plan->request;
    const struct vision *tower = plan->model->tower;
    bool given = request->image_size || request->images > 0;
    if (!tower && given)
        return fail(ERR_USAGE, "--%s is for models that read images, and %s reads text alone",
                    request->image_size ? "image-size" : "images", plan->model->name);
    if (!(request->seen.images > 0))
        return OK;
    if (!tower || (request->seen_as && strcmp(request->seen_as, tower->name)))
        return fail(ERR_INPUT,
                    "images were counted as %s reads them, and %s %s%s; profile the data again "
                    "with --model %s",
                    request->seen_as ? request->seen_as : "another model", plan->model->name,
                    tower ? "reads them as " : "reads text alone", tower ? tower->name : "",
                    plan->model->name);
    return OK;
}

// What the images of one example cost, by --image-size and --images.
static enum err of_example(struct vision_load *out, const struct plan *plan)
{
    const struct plan_request *request = plan->request;
    struct image_size size = { 0 };
    struct vision_image image;
    struct vision_load one = { 0 };
    double count = isnan(request->images) ? 1 : request->images;
    if (!request->image_size)
        return fail(ERR_USAGE, "--images says how many images an example has, but not their size; "
                               "add --image-size");
    if (!(count > 0 && count <= 1e4))
        return fail(ERR_USAGE, "--images is %g, must be more than 0 and at most 10000", count);
    TRY(error_prefix(image_read_words(&size, text_of(request->image_size)), "--image-size: "));
    size = vision_shrunk(&size, request->image_max_pixels);
    if (vision_measure(&image, plan->model->tower, &size))
        return error_prefix(ERR_USAGE, "--image-size: ");
    vision_load_add(&one, &image);
    *out = vision_load_scaled(&one, count);
    return OK;
}

// Adds the tokens of images to rows whose text alone was counted.
static enum err add_images(struct workload_rule *rule, const struct plan *plan)
{
    struct vision_load each;
    TRY(of_example(&each, plan));
    if (!(rule->tokens > 0)) { // bytes only: a row has its images, and fills the context
        rule->images = vision_load_scaled(&each, 1 / fmax(rule->context, each.tokens));
        rule->context = fmax(rule->context, each.tokens);
        return OK;
    }
    double examples = rule->examples > 0       ? rule->examples
                      : rule->mean_length >= 1 ? rint(rule->tokens / rule->mean_length)
                                               : NAN;
    if (!(examples >= 1))
        return fail(ERR_USAGE, "--image-size adds images to each example, and their number is not "
                               "known; add --examples");
    rule->examples = examples;
    rule->tokens += examples * each.tokens;
    rule->mean_length = rule->tokens / examples;
    rule->images = vision_load_scaled(&each, examples / rule->tokens);
    if (plan->request->context <= 0) // long enough for most rows
        rule->context = fmax(rule->context, 1024 * ceil(2 * rule->mean_length / 1024));
    return OK;
}

enum err plan_images(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    struct workload_rule *rule = &plan->rule;
    TRY(check_model(plan));
    if (request->seen.images > 0 && rule->tokens > 0)
        rule->images = vision_load_scaled(&request->seen, 1 / rule->tokens);
    else if (!request->lengths && (request->image_size || request->images > 0))
        return add_images(rule, plan);
    return OK;
}

// --- what they cost ----------------------------------------------------------

// Of the seconds in which the device works, by the roofline.
static double share_of_step(const struct plan *plan)
{
    const struct step *step = &plan->estimate.step;
    struct setup setup = search_setup(&plan->chosen, plan->model, plan->stack);
    struct recipe recipe = estimate_recipe(&setup);
    struct step_request request = { .model = plan->model,
                                    .recipe = &recipe,
                                    .layout = &setup.layout,
                                    .stack = plan->stack,
                                    .batch = setup.batch,
                                    .accumulation = setup.accumulation,
                                    .passes = setup.passes };
    struct {
        double device, host;
    } of[2] = { 0 }; // text and images: each takes the longer of the two
    double once[STEP_OPS];
    compute_op_times(once, step, &request, plan->chosen.gpu);
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        if (op->phase == STEP_UPDATE)
            continue;
        of[op->of_images].device += once[i] * op->repeats;
        of[op->of_images].host += compute_host_seconds(op, plan->stack) * op->repeats;
    }
    double text = fmax(of[0].device, of[0].host), images = fmax(of[1].device, of[1].host);
    return images > 0 ? images / (text + images) : 0;
}

static struct vision_load in_data(const struct plan *plan)
{
    return vision_load_scaled(&plan->rule.images, plan->rule.tokens);
}

const char *plan_images_words(const struct plan *plan, struct arena *arena)
{
    struct vision_load load = in_data(plan);
    if (!(load.images > 0))
        return NULL;
    const struct vision *tower = plan->model->tower;
    double weights =
        vision_encoder_weights(tower) + vision_projector_weights(tower, (double)plan->model->width);
    long long each = llround(load.tokens / load.images);
    return text_format(arena,
                       "%.3g per example, %s token%s each on average: %s of the tokens; encoder of "
                       "%s weights, %s: %s of a step",
                       load.images / plan->chosen.workload.examples, text_commas(arena, each),
                       text_plural(each), text_share(arena, load.tokens / plan->rule.tokens),
                       text_count(arena, weights),
                       plan->chosen.recipe.trains_encoder ? "trained too" : "frozen",
                       text_share(arena, share_of_step(plan)));
}

void plan_put_images(struct json_writer *w, const struct plan *plan)
{
    struct vision_load load = in_data(plan);
    if (!(load.images > 0))
        return;
    json_open(w, "images", '{');
    json_put_string(w, "family", plan->model->tower->name);
    field_write(vision_load_fields, &load, w);
    json_put_number(w, "step_share", share_of_step(plan));
    json_close(w, '}');
}

void plan_read_images(struct plan_request *out, struct arena *arena, const struct json *document)
{
    const struct json *images = json_get(document, "images");
    struct vision_load load = { 0 };
    if (!images || images->kind != JSON_OBJECT ||
        field_read(vision_load_fields, &load, arena, images, "images", false))
        return;
    for (const struct field *field = vision_load_fields; field->name; field++)
        if (!(field_number(field, &load) >= 0 && field_number(field, &load) <= 1e18))
            return;
    struct text family = json_get_text(images, "family");
    out->seen = load;
    out->seen_as = family.size ? text_copy(arena, family) : NULL;
    out->image_size = NULL;
    out->images = NAN;
}
