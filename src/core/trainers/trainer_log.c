// SPDX-License-Identifier: Apache-2.0
// Splits the output into lines, reads the values of each, and decides what is training: which bar
// counts steps, which one is an evaluation, which rank counts.

#include "core/trainers/trainer_log_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// What counts the steps; a later one takes over from an earlier one. Epochs times their steps as
// planned are only right where the run is the planned one.
enum source { SOURCE_NONE, SOURCE_EPOCH, SOURCE_BAR, SOURCE_LINE, SOURCE_PATTERN };

const char *trainer_log_kind_name(enum trainer_log_kind kind)
{
    static const char *const names[] = {
        "begin",         "step",  "report", "evaluation_begin", "evaluation_end", "save",
        "out_of_memory", "error", "end",
    };
    return names[kind];
}

enum err trainer_log_init(struct trainer_log *log, struct arena *arena, const char *pattern,
                          trainer_log_callback *call, void *context)
{
    memset(log, 0, sizeof *log);
    log->arena = arena;
    log->call = call;
    log->context = context;
    log->rank = log->counted_rank = -1;
    log->step = log->total = log->announced = log->epochs = log->steps_per_epoch = NAN;
    log->rows = log->ranks = log->micro_batch = log->gathered = NAN;
    log->accumulation = NAN;
    log->former = log->held = NAN;
    log->bar_total = log->other_total = log->evaluation_loss = log->heading = NAN;
    log->bar_seconds = log->other_seconds = NAN;
    log->source = pattern ? SOURCE_PATTERN : SOURCE_NONE; // then nothing else counts steps
    return pattern ? trainer_log_read_pattern(&log->pattern, arena, pattern) : OK;
}

// --- events ------------------------------------------------------------------

static void emit(struct trainer_log *log, enum trainer_log_kind kind,
                 const struct trainer_log_found *found)
{
    struct trainer_log_found nothing;
    trainer_log_clear(&nothing);
    struct trainer_log_event event = found ? found->event : nothing.event;
    event.kind = kind;
    event.rank = log->rank;
    event.seconds = log->line_seconds;
    event.line = (struct text){ log->line + log->used, log->size - log->used };
    if (kind == TRAINER_LOG_REPORT || isnan(event.step))
        event.step = log->step;
    if (isnan(event.total))
        event.total = isnan(log->announced) ? log->total : log->announced;
    if (isnan(event.global_batch))
        event.global_batch =
            isnan(log->rows) ? log->micro_batch * log->gathered * log->ranks : log->rows;
    if (isnan(event.micro_batch))
        event.micro_batch = log->micro_batch;
    log->call(log->context, &event);
}

// Other ranks repeat what the first one prints: only their errors and memory figures count.
static bool is_foreign(struct trainer_log *log)
{
    return log->counted_rank >= 0 && log->rank >= 0 && log->rank != log->counted_rank;
}

static void end_evaluation(struct trainer_log *log, const struct trainer_log_found *found)
{
    if (log->evaluates || found)
        emit(log, TRAINER_LOG_EVALUATION_END, found);
    log->evaluates = false;
    if (found)
        log->evaluation_loss = found->event.evaluation_loss;
}

static void begin_evaluation(struct trainer_log *log)
{
    if (!log->evaluates)
        emit(log, TRAINER_LOG_EVALUATION_BEGIN, NULL);
    log->evaluates = true;
}

static void begin(struct trainer_log *log, struct trainer_log_found *found, enum source source)
{
    log->source = source;
    log->step = found->event.step;
    log->total = found->event.total;
    log->stride = 0;
    log->held = NAN;
    log->evaluates = log->ended = false;
    if (log->counted_rank < 0)
        log->counted_rank = log->rank;
    emit(log, TRAINER_LOG_BEGIN, found);
}

static void report(struct trainer_log *log, const struct trainer_log_found *found)
{
    if (found->count)
        emit(log, TRAINER_LOG_REPORT, found);
}

// A number that is less than half the last one is of a run that began again, until one goes on
// where the last one was: then it is of a rank that is behind, and so are later ones. They are left
// out while the first rank prints, too.
static bool is_behind(struct trainer_log *log)
{
    const int64_t most = 256; // lines of all ranks between two of the first
    return log->ranks_apart && ++log->behind <= most;
}

static bool goes_on(const struct trainer_log *log, double step) // false where there is no former
{
    return step >= log->former && log->step < log->former && step - log->step > log->former / 2;
}

// Two lines torn into one make a number that no step has: "step 100" and "100" in "step 100100".
// One that is far beyond any before counts when the next is not below it.
static bool is_torn(struct trainer_log *log, double step)
{
    const double most = 4; // times the largest stride
    bool far = log->stride > 0 && step - log->step > most * log->stride;
    if (far && !(step >= log->held)) {
        log->held = step;
        return true;
    }
    log->stride = fmax(log->stride, step - log->step);
    log->held = NAN;
    return false;
}

// The time stamp before a line, where the line has no better time of its own.
static void take_stamp(const struct trainer_log *log, struct trainer_log_event *event)
{
    if (isnan(event->clock_seconds) && isnan(event->step_seconds) && isnan(event->elapsed_seconds))
        event->clock_seconds = trainer_log_time(log->line);
}

// A line or a bar with the number of completed steps.
static void count(struct trainer_log *log, struct trainer_log_found *found, enum source source)
{
    take_stamp(log, &found->event);
    double step = found->event.step, last = log->step;
    bool agrees = fabs(step - last) <= 1;
    if (source < (enum source)log->source ||
        (log->source == SOURCE_BAR && source > SOURCE_BAR && agrees)) {
        report(log, found);
    } else if (isnan(last) || source > (enum source)log->source) {
        begin(log, found, source);
    } else if (step <= last / 2 - 1) {
        if (is_behind(log))
            return;
        log->former = last;
        begin(log, found, source);
    } else if (goes_on(log, step)) {
        log->ranks_apart = true;
        begin(log, found, source);
    } else if (step > last) {
        if (is_torn(log, step))
            return;
        end_evaluation(log, NULL);
        log->step = step;
        log->behind = 0;
        emit(log, TRAINER_LOG_STEP, found);
    } else if (source != SOURCE_BAR && step == last) { // one before it is of a rank that is behind
        found->event.repeated = true;
        report(log, found);
    }
}

// --- bars --------------------------------------------------------------------

static void see_evaluation(struct trainer_log *log, const struct trainer_log_bar *bar)
{
    log->other_at = bar->at;
    log->other_total = bar->total;
    log->other_seconds = bar->total == log->bar_total ? bar->elapsed_seconds : NAN;
    if (bar->at < bar->total)
        begin_evaluation(log);
    else
        end_evaluation(log, NULL);
}

// A bar of as many steps as the training bar that begins in the midst of it is of an evaluation, or
// of a run that began again; promote() finds out. Its time counts from 0 again. The training bar
// goes on where it was, with the time that the other took on its own.
static bool is_another(const struct trainer_log *log, const struct trainer_log_bar *bar)
{
    const double rounded = 2; // seconds, of two bars
    if (log->bar_at == log->bar_total && !(log->bar_total == log->announced))
        return false; // the next epoch
    if (isnan(log->other_seconds))
        return bar->at < log->bar_at && bar->at <= 1 && log->bar_at > 2;
    return bar->at <= log->bar_at ||
           bar->elapsed_seconds + rounded < log->bar_seconds + log->other_seconds;
}

// transformers labels neither its training bar nor its evaluation bars: the first one is taken as
// training until promote() finds otherwise.
static bool is_training(const struct trainer_log *log, const struct trainer_log_bar *bar)
{
    if (bar->kind == BAR_TRAINING || isnan(log->bar_total))
        return true;
    if (bar->total == log->bar_total)
        return isinf(bar->total) || !is_another(log, bar);
    if (isinf(log->bar_total)) // of an iterator; without a loss it may be of anything
        return !log->reported;
    bool announced = bar->total == log->announced && log->bar_total != log->announced;
    bool former_is_done = log->bar_at == log->bar_total && !log->reported && !log->ended;
    return announced || former_is_done;
}

// Lightning's bar counts micro-batches; it shows the number of its version.
static bool is_lightning(const struct trainer_log_bar *bar)
{
    const char *version = strstr(bar->postfix, "v_num=");
    return version && version < bar->end;
}

// The steps of so many micro-batches, where it is known how many make one.
static double steps_of(const struct trainer_log *log, double batches)
{
    return log->in_batches && log->accumulation > 1 ? floor(batches / log->accumulation) : batches;
}

static void count_bar(struct trainer_log *log, const struct trainer_log_bar *bar,
                      struct trainer_log_found *found)
{
    if (bar->total != log->bar_total) { // another bar than before
        log->bar_total = bar->total;
        log->bar_at = log->bar_offset = 0;
        log->step = log->source == SOURCE_BAR ? NAN : log->step;
    } else if (bar->at < log->bar_at && bar->at <= 1 &&
               (log->bar_at == bar->total || isinf(bar->total))) {
        log->bar_offset += log->bar_at; // the next epoch
    } else if (bar->at < log->bar_at && bar->at == 0 && log->bar_at > 2) {
        log->bar_offset = 0;
        log->step = NAN; // restarted
    } else if (bar->at < log->bar_at) {
        return; // from a slower rank
    }
    if (log->bar_at == 0 && bar->at > 1 && log->step == 0)
        log->step = NAN; // resumed: the first number includes all earlier steps
    log->bar_at = bar->at;
    log->bar_seconds = bar->elapsed_seconds;
    log->other_seconds = NAN;
    found->event.step = isnan(bar->step) ? steps_of(log, log->bar_offset + bar->at) : bar->step;
    bool is_whole = isnan(bar->step) && !log->bar_offset && !isinf(bar->total) && !bar->keras;
    found->event.total = log->total = is_whole ? bar->total : NAN;
    count(log, found, SOURCE_BAR);
}

static void read_words(struct trainer_log_found *found, struct text words)
{
    char line[512];
    size_t size = words.size < sizeof line ? words.size : sizeof line - 1;
    memcpy(line, words.at, size);
    line[size] = 0;
    trainer_log_pairs(found, line);
}

static void see_epoch(struct trainer_log *log, const struct trainer_log_bar *bar,
                      struct trainer_log_found *found)
{
    found->event.step = steps_of(log, bar->epoch * bar->total + bar->at);
    found->event.total = log->total = NAN; // the bar's is an epoch's
    log->bar_total = bar->total;
    count(log, found, SOURCE_BAR);
}

static void see_bar(struct trainer_log *log, const struct trainer_log_bar *bar)
{
    bool opens = isinf(bar->total) && bar->at == 0 && !isinf(log->bar_total);
    if (bar->kind == BAR_OTHER || is_foreign(log) || opens) // Lightning opens a bar that it leaves
        return;
    if (bar->kind == BAR_EVALUATION || (bar->kind == BAR_BARE && !is_training(log, bar))) {
        see_evaluation(log, bar);
        return;
    }
    struct trainer_log_found found;
    trainer_log_clear(&found);
    read_words(&found, bar->name); // "2|40|Loss: 1.25"
    read_words(&found, (struct text){ bar->postfix, (size_t)(bar->end - bar->postfix) });
    found.event.step = NAN;
    found.event.step_seconds = bar->step_seconds;
    found.event.elapsed_seconds = bar->elapsed_seconds;
    log->in_batches = log->in_batches || (bar->kind == BAR_EPOCH && is_lightning(bar));
    log->reported =
        log->reported || (!isnan(found.event.loss) && (bar->keras || isinf(bar->total)));
    if (bar->keras && !isnan(found.event.evaluation_loss) && !isnan(log->step))
        end_evaluation(log, &found);
    if (bar->kind == BAR_EPOCH && !isinf(bar->total))
        see_epoch(log, bar, &found);
    else
        count_bar(log, bar, &found);
}

static void see_bars(struct trainer_log *log)
{
    struct trainer_log_bar bar;
    while (trainer_log_read_bar(&bar, log->line + log->used)) {
        see_bar(log, &bar);
        log->used = (size_t)(bar.end - log->line);
    }
    log->bar = 0;
}

// --- lines -------------------------------------------------------------------

// A loss under a bar taken as an evaluation, while the first bar had none, or began again: that bar
// is the training.
static void promote(struct trainer_log *log)
{
    bool moves = log->evaluates && log->other_at > 0 && log->other_at < log->other_total;
    bool again = !isnan(log->other_seconds);
    if (!moves || (log->reported && !again) || log->source != SOURCE_BAR)
        return;
    struct trainer_log_found found;
    trainer_log_clear(&found);
    log->bar_total = log->other_total;
    log->bar_at = log->other_at;
    log->bar_seconds = log->other_seconds;
    log->other_seconds = NAN;
    log->bar_offset = 0;
    found.event.step = log->other_at;
    found.event.total = log->other_total;
    begin(log, &found, SOURCE_BAR);
}

static bool is_evaluation(const struct trainer_log_found *found, bool dict)
{
    const struct trainer_log_event *event = &found->event;
    if (isnan(event->evaluation_loss))
        return false;
    return isnan(event->loss) ||
           (!dict && isnan(event->rate) && isnan(event->step_seconds) && isnan(found->micro_step));
}

static bool has_phases(const struct trainer_log_event *event)
{
    bool any = false;
    for (int i = 0; i < TRAINER_PHASES; i++)
        any = any || !isnan(event->phases[i]);
    return any;
}

static bool has_values(const struct trainer_log_event *event)
{
    return !isnan(event->loss) || !isnan(event->tokens) || !isnan(event->tokens_per_s) ||
           !isnan(event->tokens_per_s_gpu) || !isnan(event->answer_tokens) || has_phases(event) ||
           !isnan(event->peak_bytes) || !isnan(event->rate) || !isnan(event->samples);
}

static void see_values(struct trainer_log *log, struct trainer_log_found *found, bool dict,
                       bool numbered)
{
    struct trainer_log_event *event = &found->event;
    int base = trainer_log_find_base(log->line + log->used);
    if (isnan(event->step))
        event->step = found->micro_step;
    enum source source = SOURCE_LINE;
    if (dict && isnan(event->step) && log->source != SOURCE_BAR) {
        source = SOURCE_EPOCH;
        bool told = !isnan(log->announced) && log->epochs > 0;
        event->step =
            round(event->epoch * (told ? log->announced / log->epochs : log->steps_per_epoch));
    }
    event->step += base;
    event->total += base;
    numbered = numbered || (!isnan(event->step) && found->count >= 2 && has_values(event));
    if (!isnan(event->loss)) {
        promote(log);
        log->reported = true;
    }
    if (is_evaluation(found, dict)) {
        end_evaluation(log, found);
    } else if (!isnan(event->run_seconds) && isnan(event->rate)) {
        log->ended = true;
        emit(log, TRAINER_LOG_END, found);
    } else if (numbered && !isnan(event->step)) {
        if (!isnan(event->evaluation_loss) && event->evaluation_loss != log->evaluation_loss)
            end_evaluation(log, found);
        count(log, found, source);
    } else if (has_values(event)) {
        report(log, found);
    }
}

// "[epoch=2][batch=12/100]:", then one value per line.
static void see_block(struct trainer_log *log, struct trainer_log_found *found)
{
    trainer_log_pairs(found, log->line + log->used);
    double epoch = found->event.epoch;
    if (!isnan(epoch)) {
        found->micro_step += (epoch - 1) * found->event.total;
        found->event.total = NAN;
    }
    log->in_block = true;
    see_values(log, found, false, true);
}

// The step that the last heading named is done; its phases follow, one a line.
static void see_step(struct trainer_log *log, struct trainer_log_found *found)
{
    trainer_log_pairs(found, log->line + log->used);
    found->event.step = log->heading;
    found->event.total = log->total;
    log->in_block = true;
    if (!isnan(log->heading))
        count(log, found, SOURCE_LINE);
}

// "step=10, lr=[1e-4]", "Iter(train) [  10/2046]  lr: 1e-4  loss: 0.8": the number after the
// phrase.
static void see_counted(struct trainer_log *log, struct trainer_log_found *found, const char *after)
{
    double number = NAN, *total = &found->event.total;
    trainer_log_pairs(found, log->line + log->used);
    *total = NAN;
    const char *end = trainer_log_number(after + strspn(after, " "), &number);
    if (end)
        trainer_log_total(found, end);
    found->event.step = steps_of(log, number);
    *total = steps_of(log, *total);
    if (!isnan(number))
        see_values(log, found, false, true);
}

static void keep(double *slot, double value)
{
    if (!isnan(value))
        *slot = value;
}

static void see_banner(struct trainer_log *log, struct trainer_log_found *found)
{
    trainer_log_pairs(found, log->line + log->used);
    keep(&log->announced, found->announced);
    keep(&log->epochs, found->epochs);
    keep(&log->rows, found->event.global_batch);
    keep(&log->micro_batch, found->event.micro_batch);
    keep(&log->gathered, found->gathered);
    keep(&log->ranks, found->ranks);
}

static bool see_traceback(struct trainer_log *log, const char *line, bool out_of_memory)
{
    if (!strncmp(line, "Traceback (most recent call last)", 33)) {
        log->in_traceback = true;
        return true;
    }
    if (!log->in_traceback || *line == ' ' || *line == '^')
        return log->in_traceback;
    log->in_traceback = false;
    if (!strncmp(line, "KeyboardInterrupt", 17) || !strncmp(line, "SystemExit", 10))
        return true;
    emit(log, out_of_memory ? TRAINER_LOG_OUT_OF_MEMORY : TRAINER_LOG_ERROR, NULL);
    return true;
}

static bool has(const char *line, const char *word)
{
    size_t size = strlen(word);
    for (; *line; line++)
        if ((*line | 32) == *word && !strncasecmp(line, word, size))
            return true;
    return false;
}

static void see_phrase(struct trainer_log *log, enum trainer_log_phrase_kind phrase,
                       const char *after)
{
    const char *line = log->line + log->used;
    struct trainer_log_found found;
    trainer_log_clear(&found);
    switch (phrase) {
    case PHRASE_EVALUATION_BEGIN:
        begin_evaluation(log);
        log->in_block = true;
        break;
    case PHRASE_EVALUATION_END: end_evaluation(log, NULL); break;
    case PHRASE_SAVE: emit(log, TRAINER_LOG_SAVE, NULL); break;
    case PHRASE_END:
        trainer_log_pairs(&found, line);
        if (!log->ended)
            emit(log, TRAINER_LOG_END, &found);
        log->ended = true;
        break;
    case PHRASE_BANNER: see_banner(log, &found); break;
    case PHRASE_BLOCK: see_block(log, &found); break;
    case PHRASE_HEADING:
        trainer_log_pairs(&found, line);
        log->heading = found.event.step;
        log->announced = found.event.total;
        break;
    case PHRASE_RESULTS: log->in_block = true; break;
    case PHRASE_STEP: see_step(log, &found); break;
    case PHRASE_BATCHES:
    case PHRASE_COUNTED:
        log->in_batches = log->in_batches || phrase == PHRASE_BATCHES;
        see_counted(log, &found, after);
        break;
    case PHRASE_VALUES:
        trainer_log_pairs(&found, line);
        see_values(log, &found, false, false);
        break;
    case PHRASE_NONE:
    case PHRASE_OUT_OF_MEMORY: break;
    }
}

static void see_others_memory(struct trainer_log *log)
{
    struct trainer_log_found found, memory;
    trainer_log_clear(&found);
    trainer_log_clear(&memory);
    trainer_log_pairs(&found, log->line + log->used);
    memory.event.peak_bytes = found.event.peak_bytes;
    memory.count = 1;
    if (!isnan(memory.event.peak_bytes))
        emit(log, TRAINER_LOG_REPORT, &memory);
}

static void see_text(struct trainer_log *log)
{
    const char *line = log->line + log->used;
    struct trainer_log_found found;
    trainer_log_clear(&found);
    const char *after = line;
    enum trainer_log_phrase_kind phrase = trainer_log_find_phrase(line, &after);
    bool out_of_memory = phrase == PHRASE_OUT_OF_MEMORY;
    if (see_traceback(log, line, out_of_memory))
        return;
    if (*line != ' ' && *line != '\t')
        log->in_block = false;
    if (out_of_memory) {
        emit(log, TRAINER_LOG_OUT_OF_MEMORY, NULL);
    } else if (is_foreign(log)) {
        see_others_memory(log);
    } else if (phrase) {
        see_phrase(log, phrase, after);
    } else if (log->pattern && trainer_log_match(log->pattern, &found,
                                                 (struct text){ line, log->size - log->used })) {
        count(log, &found, SOURCE_PATTERN);
    } else if (trainer_log_dict(&found, line)) {
        if (isnan(found.event.step) && has_phases(&found.event)) // "Global step 5: {…}"
            read_words(&found, (struct text){ line, (size_t)(strchr(line, '{') - line) });
        see_values(log, &found, true, false);
    } else if (log->in_block || has(line, "step") || has(line, "iter")) {
        trainer_log_pairs(&found, line);
        if (log->in_block || !isnan(found.event.step) || !isnan(found.micro_step) ||
            !isnan(found.event.evaluation_loss))
            see_values(log, &found, false, false);
    }
}

// --- ranks -------------------------------------------------------------------

static const char *const rank_prefixes[] = { "[rank", "[Rank ", "[default", "" };

// "[rank3]:", "[default3]:", "3: ", as torchrun, Megatron and srun write them.
static void read_rank(struct trainer_log *log)
{
    const char *line = log->line;
    for (size_t i = 0; i < sizeof rank_prefixes / sizeof *rank_prefixes; i++) {
        size_t size = strlen(rank_prefixes[i]), at = size;
        if (strncmp(line, rank_prefixes[i], size))
            continue;
        at += size ? 0 : strspn(line, " ");
        size_t first = at;
        int rank = 0;
        while (isdigit((unsigned char)line[at]) && at < first + 6)
            rank = rank * 10 + (line[at++] - '0');
        if (at == first || line[at] != (size ? ']' : ':') || (!size && line[at + 1] != ' '))
            continue;
        at++;
        at += line[at] == ':';
        at += line[at] == ' ';
        log->rank = rank;
        log->used = at;
        return;
    }
}

// --- bytes -------------------------------------------------------------------

static void look(struct trainer_log *log, bool whole)
{
    log->line[log->size] = 0;
    if (!log->used)
        read_rank(log);
    see_bars(log);
    if (whole && log->line[log->used + strspn(log->line + log->used, " \t")])
        see_text(log);
}

static void end_line(struct trainer_log *log)
{
    if (log->size > log->used)
        look(log, true);
    log->size = log->used = log->bar = 0;
}

enum { ESCAPE_NONE, ESCAPE_BEGUN, ESCAPE_CODE, ESCAPE_TITLE, ESCAPE_TITLE_END };

// Skips terminal codes. A code that moves the cursor ends the line, a colour does not.
static bool eat_escape(struct trainer_log *log, char c)
{
    switch (log->escape) {
    case ESCAPE_NONE:
        if (c != '\x1b')
            return false;
        log->escape = ESCAPE_BEGUN;
        return true;
    case ESCAPE_BEGUN:
        log->escape = c == '[' ? ESCAPE_CODE : c == ']' ? ESCAPE_TITLE : ESCAPE_NONE;
        return c != '\n' && c != '\r';
    case ESCAPE_CODE:
        if (c >= '@' && c <= '~') {
            log->escape = ESCAPE_NONE;
            if (strchr("ABEFGHJ", c))
                end_line(log);
        } else if (c == '\n' || c == '\r') {
            log->escape = ESCAPE_NONE;
            return false;
        }
        return true;
    case ESCAPE_TITLE:
        log->escape = c == '\a' || c == '\n' ? ESCAPE_NONE
                      : c == '\x1b'          ? ESCAPE_TITLE_END
                                             : ESCAPE_TITLE;
        return c != '\n';
    default: log->escape = ESCAPE_NONE; return true;
    }
}

static void add(struct trainer_log *log, char c, double seconds)
{
    if (eat_escape(log, c))
        return;
    if (c == '\n' || c == '\r' || c == '\b') {
        end_line(log);
        if (c == '\n')
            log->rank = -1;
        return;
    }
    if (log->size + 1 >= TRAINER_LOG_LINE)
        return;
    log->line[log->size++] = c ? c : ' ';
    log->line_seconds = seconds;
    if (c == '|' && log->size > 1 && log->line[log->size - 2] == '%')
        log->bar = log->size;
    else if (c == ']' && log->bar) // a bar has no newline after it
        look(log, false);
}

void trainer_log_feed(struct trainer_log *log, const char *bytes, size_t size, double seconds)
{
    for (size_t i = 0; i < size; i++)
        add(log, bytes[i], seconds);
}

void trainer_log_end(struct trainer_log *log)
{
    while (log->size && strchr("0123456789.eE+-", log->line[log->size - 1]))
        log->size--; // the last number may be incomplete
    end_line(log);
}
