// SPDX-License-Identifier: Apache-2.0
// Which levels a place has, how much they narrow its range, and the table in which that is kept.

#include "core/measured/evidence_internal.h"

#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const evidence_factors[] = {
    [EVIDENCE_KIND] = "kind",
    [EVIDENCE_FAMILY] = "family",
    [EVIDENCE_STACK] = "stack",
    [EVIDENCE_VENDOR] = "vendor",
    [EVIDENCE_GENERATION] = "generation",
    [EVIDENCE_GPU] = "gpu",
    [EVIDENCE_METHOD] = "method",
    [EVIDENCE_PRECISION] = "precision",
    [EVIDENCE_STACK_VENDOR] = "stack and vendor",
    [EVIDENCE_STACK_METHOD] = "stack and method",
    [EVIDENCE_GPUS] = "gpus",
    [EVIDENCE_CONTEXT] = "context",
    [EVIDENCE_BATCH] = "batch",
    [EVIDENCE_FACTORS] = "widest",
    [EVIDENCE_FACTORS + 1] = NULL,
};

const struct field evidence_fields[] = {
    FIELD(evidence_level, kind, TEXT,
          "of the model: dense, moe, or vision for steps with images (vision moe, vision trained)"),
    FIELD_OF(evidence_level, factor, evidence_factors, "what the level is one of",
             .required = true),
    FIELD(evidence_level, level, TEXT, "a name, or a number of GPUs or tokens"),
    FIELD(evidence_level, with, TEXT, "the second name, where the factor has two"),
    FIELD_NEEDED(evidence_level, narrowing, NUMBER,
                 "how much ln(spread) falls; of widest: - ln(spread) itself"),
    FIELD(evidence_level, runs, COUNT, "measured runs of that level"),
    FIELD(evidence_level, sources, COUNT, "independent sources of them"),
    { 0 },
};

// --- levels of a place -------------------------------------------------------

// Levels of a number are powers: one GPU, a node, a rack; 1,024 tokens, 4,096, 16,384.
static size_t terms_of_number(struct evidence_term *out, int factor, double number)
{
    double base = factor == EVIDENCE_GPUS ? 8 : 4;
    double at = number > 1 ? log(number) / log(base) : 0, low = floor(at + 1e-9);
    double above = fmax(0, at - low), level = pow(base, low);
    out[0] = (struct evidence_term){ .factor = factor, .number = level, .share = 1 - above };
    out[1] = (struct evidence_term){ .factor = factor, .number = base * level, .share = above };
    return above > 1e-6 ? 2 : 1;
}

size_t evidence_terms(struct evidence_term out[EVIDENCE_TERMS], const struct place *place)
{
    const double numbers[] = { place->gpus, place->context, place->batch_tokens };
    size_t count = 0;
    for (int f = 0; f < EVIDENCE_GPUS; f++) {
        bool pair = f >= EVIDENCE_NAMES;
        out[count++] = (struct evidence_term){
            .factor = f,
            .level = place->names[pair ? EVIDENCE_STACK : f],
            .with = !pair                        ? NULL
                    : f == EVIDENCE_STACK_VENDOR ? place->names[EVIDENCE_VENDOR]
                                                 : place->names[EVIDENCE_METHOD],
            .share = 1,
        };
    }
    for (int f = EVIDENCE_GPUS; f < EVIDENCE_FACTORS; f++)
        count += terms_of_number(out + count, f, numbers[f - EVIDENCE_GPUS]);
    return count;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool is_level(const struct evidence_level *level, const struct evidence_term *term)
{
    if (level->factor != term->factor)
        return false;
    if (term->factor < EVIDENCE_GPUS)
        return same_text(level->level, term->level) && same_text(level->with, term->with);
    return fabs(level->number - term->number) < 0.5;
}

bool evidence_is(const struct evidence_level *level, const char *kind,
                 const struct evidence_term *term)
{
    return is_level(level, term) && same_text(level->kind, kind);
}

struct evidence_level *evidence_find(const struct evidence *e, const char *kind,
                                     const struct evidence_term *term)
{
    for (size_t i = 0; i < e->count; i++)
        if (evidence_is(&e->levels[i], kind, term))
            return &e->levels[i];
    return NULL;
}

bool evidence_same(const struct evidence_level *a, const struct evidence_level *b)
{
    return a->factor == b->factor && same_text(a->level, b->level) && same_text(a->with, b->with) &&
           same_text(a->kind, b->kind);
}

// Whether the runs of a kind all share one family of stacks, generation of cards or number of GPUs,
// and the place is another. Nothing tells then what of their narrowing holds elsewhere.
static bool is_beyond(const struct evidence *e, const char *kind, const struct evidence_term *terms,
                      size_t count)
{
    static const int factors[] = { EVIDENCE_FAMILY, EVIDENCE_GENERATION, EVIDENCE_GPUS };
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        size_t levels = 0;
        bool here = false;
        for (size_t i = 0; i < e->count && levels < 2; i++) {
            const struct evidence_level *level = &e->levels[i];
            if (level->factor != factors[f] || !same_text(level->kind, kind))
                continue;
            levels++;
            for (size_t t = 0; t < count; t++)
                here |= is_level(level, &terms[t]);
        }
        if (levels == 1 && !here)
            return true;
    }
    return false;
}

double evidence_spread(const struct evidence *e, const struct place *place)
{
    struct evidence_term terms[EVIDENCE_TERMS];
    size_t count = evidence_terms(terms, place);
    const char *kind = place->names[EVIDENCE_KIND];
    double log_spread = e->log_widest;
    if (is_beyond(e, kind, terms, count))
        return exp(log_spread);
    for (size_t i = 0; i < e->count; i++) {
        const struct evidence_level *level = &e->levels[i];
        bool number = level->factor >= EVIDENCE_GPUS; // the terms of names stand at their factor
        size_t t = number ? EVIDENCE_GPUS : (size_t)level->factor, end = number ? count : t + 1;
        for (; t < end; t++)
            if (is_level(level, &terms[t]) && same_text(level->kind, kind))
                log_spread -= terms[t].share * level->narrowing;
    }
    return exp(log_spread);
}

const struct evidence_level *evidence_level(const struct evidence *e, const struct place *place,
                                            enum evidence_factor factor)
{
    struct evidence_term terms[EVIDENCE_TERMS];
    size_t count = evidence_terms(terms, place), best = count;
    for (size_t i = 0; i < count; i++)
        if (terms[i].factor == (int)factor && (best == count || terms[i].share > terms[best].share))
            best = i;
    return best < count ? evidence_find(e, place->names[EVIDENCE_KIND], &terms[best]) : NULL;
}

int64_t evidence_sources(const struct evidence *e, enum evidence_factor factor, const char *level)
{
    int64_t most = 0;
    for (size_t i = 0; i < e->count; i++)
        if (e->levels[i].factor == (int)factor && same_text(e->levels[i].level, level) &&
            e->levels[i].sources > most)
            most = e->levels[i].sources;
    return most;
}

// --- tails -------------------------------------------------------------------

double evidence_tail(double normal)
{
    // The quantile of Student's t with four degrees of freedom, which has a closed form.
    double below = stats_normal_below(-fabs(normal)), a = 4 * below * (1 - below);
    double t = a > 0 ? 2 * sqrt(fmax(0, cos(acos(fmin(1, sqrt(a))) / 3) / sqrt(a) - 1)) : INFINITY;
    return copysign(fmin(t * STATS_T4_SCALE, 40), normal); // beyond 40 there are no numbers
}

// --- the table ---------------------------------------------------------------

enum err evidence_read(struct evidence *out, struct arena *arena, struct text csv, const char *name)
{
    void *rows;
    size_t count;
    TRY(field_read_csv(evidence_fields, sizeof(struct evidence_level), &rows, &count, arena, csv,
                       name));
    *out = (struct evidence){ .levels = rows, .count = count, .log_widest = NAN };
    for (size_t i = 0; i < count; i++) {
        struct evidence_level *level = &out->levels[i];
        level->number = level->level ? strtod(level->level, NULL) : 0;
        if (level->factor == EVIDENCE_FACTORS)
            out->log_widest = -level->narrowing;
        else if (level->narrowing < 0)
            return fail(ERR_INPUT, "%s: %s %s: narrowing is %g; no level widens a range", name,
                        evidence_factors[level->factor], level->level ? level->level : "",
                        level->narrowing);
    }
    return isnan(out->log_widest) ? fail(ERR_INPUT, "%s: has no row \"widest\"", name) : OK;
}

void evidence_write(const struct evidence *e, struct out *out)
{
    out_put(out, "kind,factor,level,with,narrowing,runs,sources\n");
    out_put(out, ",%s,,,%.6f,,\n", evidence_factors[EVIDENCE_FACTORS], -e->log_widest);
    for (int factor = 0; factor < EVIDENCE_FACTORS; factor++)
        for (size_t i = 0; i < e->count; i++) {
            const struct evidence_level *l = &e->levels[i];
            if (l->factor == factor)
                out_put(out, "%s,%s,%s,%s,%.6f,%lld,%lld\n", l->kind ? l->kind : "",
                        evidence_factors[factor], l->level ? l->level : "", l->with ? l->with : "",
                        l->narrowing, (long long)l->runs, (long long)l->sources);
        }
}
