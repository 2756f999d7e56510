// SPDX-License-Identifier: Apache-2.0
// The member "model" of a plan's document: the model as it was named, and its shape, so that the
// document can be read where that folder or catalog entry does not exist.

#include "core/plan/plan_internal.h"

void plan_put_model(struct json_writer *w, const struct plan *plan)
{
    json_open(w, "model", '{');
    json_put_string(w, "given", plan->request->model);
    field_write(model_fields, plan->model, w);
    json_close(w, '}');
}

enum err plan_read_model(const struct model **shape, const char **given, struct arena *arena,
                         const struct json *document, const char *name)
{
    const struct json *member = json_get(document, "model");
    *shape = NULL;
    *given = NULL;
    if (!member)
        return OK; // written before version 0.2
    struct model *model = ARENA_NEW(arena, struct model, 1);
    field_clear(model_fields, model);
    const char *where = text_format(arena, "%s: model", name);
    TRY(field_read(model_fields, model, arena, member, where, false));
    if (!model->name)
        return fail(ERR_INPUT, "%s: has no name; gpuhours plan --json writes one", where);
    TRY(model_check(model, where, NULL));
    struct text text = json_get_text(member, "given");
    *given = text.size ? text_copy(arena, text) : model->name;
    *shape = model;
    return OK;
}
