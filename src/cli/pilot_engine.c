#include "cli/pilot_engine.h"

#include <math.h>

const char *const pilot_engine_devices[] = { "auto", "cpu", "cuda", NULL };

const struct field pilot_engine_fields[] = {
    FIELD_OF(pilot_engine_request, device, pilot_engine_devices, "what the engine runs on"),
    FIELD(pilot_engine_request, profile, TEXT, "profile.json in the place of data"),
    FIELD(pilot_engine_request, seed, COUNT, "of the shuffle and of random weights"),
    { 0 },
};

struct pilot_engine_request pilot_engine_default(void)
{
    return (struct pilot_engine_request){ .minutes = NAN, .seed = 1 };
}

enum err pilot_engine_run(struct pilot *out, struct command_line *line,
                          const struct pilot_engine_request *request)
{
    (void)line;
    pilot_clear(out);
    if (!request->plan)
        return fail(ERR_USAGE,
                    "pilot wants --plan plan.json for the built-in engine, or -- COMMAND "
                    "for another trainer");
    return fail(ERR_UNAVAILABLE, "the built-in pilot is not in this build; give the trainer behind "
                                 "--");
}
