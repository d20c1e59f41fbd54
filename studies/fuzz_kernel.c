/* Bytes as questions to the kernel's plain C core: any composition, any law, any target. studies/fuzz_kernel.py builds it.
 *
 * An input is read as up to 3 rounds, each of up to 3 branches of up to 12 shifts on a side with Gaussian branches beside
 * them, or of up to 3 products of up to 2 allocations, or an envelope; numbers are moderate, special (0, denormal, huge, infinite, NaN)
 * or any eight bytes. What the kernel's own gate (S-28) refuses is not asked about, unless the input says so and the law
 * has increasing shifts and finite logarithms: then only the sums are wrong. Whatever is answered must have its lower
 * side at or below its upper one.
 */
#include "spectral.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SHIFTS 12
#define MOST_BRANCHES 3
#define LARGEST_COMPOSITION 3

static long calls, answered, refused, allocated_answers, enclosed_answers;

static void fail(const char *what)
{
    fprintf(stderr, "the kernel broke a promise: %s\n", what);
    abort();
}

typedef struct {
    const uint8_t *at;
    size_t left;
} input;

static unsigned byte(input *from)
{
    if (from->left == 0)
        return 0;
    from->left--;
    return *from->at++;
}

static double number(input *from)
{
    static const double special[] = {0.0,     -0.0,     1.0,   -1.0,  5e-324, 1e-310,   2.3e-308, 1e-290,
                                     1e-140,  1e-16,    0.5,   1e7,   1.1e7,  1e150,    1.7e308,  INFINITY,
                                     -INFINITY, NAN,    -1e-9, -745., -1e6,   0x1p53,   1e300,    600.0};
    unsigned kind = byte(from);
    if (kind < 24)
        return special[kind];
    if (kind < 40) {
        uint64_t bits = 0;
        double value;
        for (int i = 0; i < 8; i++)
            bits = bits << 8 | byte(from);
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    unsigned whole = byte(from);
    return ldexp(1.0 + whole / 256.0, (int)(kind % 24) - 14);
}

typedef struct {
    double shift[MOST_SHIFTS], p[MOST_SHIFTS], log_p[MOST_SHIFTS];
} numbers;

static int rising(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* One side; `sound` makes a law of it: magnitudes in increasing order, probabilities divided by their sum. */
static side read_side(input *from, numbers *to, int sound)
{
    int size = 1 + (int)(byte(from) % MOST_SHIFTS);
    double total = 0.0;
    for (int i = 0; i < size; i++) {
        to->shift[i] = number(from);
        to->p[i] = number(from);
        to->log_p[i] = sound ? 0.0 : byte(from) % 2 ? number(from) : log(to->p[i]);
        if (sound) {
            to->shift[i] = isfinite(to->shift[i]) ? fabs(to->shift[i]) : i;
            to->p[i] = isfinite(to->p[i]) ? fmin(fabs(to->p[i]), 1e3) + 1e-300 : 1.0;
            total += to->p[i];
        }
    }
    if (sound) {
        qsort(to->shift, (size_t)size, sizeof(double), rising);
        for (int i = 0; i < size; i++) {
            if (i > 0 && !(to->shift[i] > to->shift[i - 1]))
                to->shift[i] = nextafter(to->shift[i - 1], INFINITY);
            to->p[i] /= total;
            to->log_p[i] = log(to->p[i]);
        }
    }
    double span = to->shift[size - 1] - to->shift[0];
    return (side){size, to->shift, to->p, to->log_p, 0.25 * span * span * (1.0 + 0x1p-50)};
}

/* Whether everything but the sums is as it must be. */
static int is_ordered(const side *law)
{
    double before = -1.0;
    for (int i = 0; i < law->size; i++) {
        if (!(law->shift[i] > before && law->shift[i] >= 0.0 && isfinite(law->shift[i]) && law->p[i] >= 0.0 &&
              law->p[i] <= 1.0 && law->log_p[i] <= 0.0 && isfinite(law->log_p[i])))
            return 0;
        before = law->shift[i];
    }
    return 1;
}

static void check(double lower, double upper)
{
    if (!(lower <= upper))
        fail("the lower side is above the upper one, or one of them is no number");
}

static void ask(workspace *space, job work)
{
    calls++;
    int done = solve(space, &work);
    if (done && work.question != CEILING)
        check(work.found.lower, work.found.upper);
    if (done && work.question == CEILING)
        check(0.0, work.found.upper);
    if (!done && (space->reason == ANSWERED || space->reason >= REASONS))
        fail("a question is declined without a reason");
    answered += done;
}

static void ask_near(workspace *space, job work, double apart)
{
    workspace keep;
    neighbourhood found;
    take(&keep, NULL);
    keep.chunk = 1 << 16;
    calls++;
    memset(&found, 0, sizeof found);
    if (neighbourhood_of(space, &keep, &work, &found) == 1) {
        answered++;
        for (int i = -2; i <= 2; i++) {
            double lower, upper, value, slope;
            neighbourhood_log_delta(&found, work.argument + i * apart, &lower, &upper);
            neighbourhood_slope(&found, work.argument + i * apart, &value, &slope);
            check(lower, upper);
        }
    }
    forget(release(&keep));
}

typedef struct {
    allocation_law law;
    allocation factor[2];
    double times[2 * MOST_BRANCHES], log_weight[MOST_BRANCHES];
} allocations;

static void read_allocations(input *from, allocations *to, int sound)
{
    int factors = 1 + (int)(byte(from) % 2), products = 1 + (int)(byte(from) % MOST_BRANCHES);
    double weights[MOST_BRANCHES], total = 0.0;
    to->law = (allocation_law){factors, products, (int)(byte(from) % 2), to->factor, to->times, to->log_weight};
    for (int f = 0; f < factors; f++) {
        to->factor[f] = (allocation){number(from), number(from), byte(from) % 2 ? 0.0 : number(from)};
        if (sound) {
            allocation *of = &to->factor[f];
            *of = (allocation){1.0 + floor(fmin(fabs(of->places), 1e6)), fmin(fabs(of->shift), 1e3) + 1e-9,
                               -fmin(fabs(of->log_probability), 600.0)};
        }
    }
    for (int b = 0; b < products; b++) {
        weights[b] = number(from);
        if (sound)
            weights[b] = isfinite(weights[b]) ? fmin(fabs(weights[b]), 1e3) + 1e-200 : 1.0;
        total += weights[b];
        for (int f = 0; f < factors; f++)
            to->times[b * factors + f] = sound ? (double)(byte(from) % 16) : number(from);
    }
    for (int b = 0; b < products; b++)
        to->log_weight[b] = sound ? log(weights[b] / total) : weights[b];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input from = {data, size};
    numbers memory[LARGEST_COMPOSITION][MOST_BRANCHES][2];
    branch branches[LARGEST_COMPOSITION][MOST_BRANCHES];
    double mu[LARGEST_COMPOSITION][MOST_BRANCHES], log_weight[LARGEST_COMPOSITION][MOST_BRANCHES];
    round_law rounds[LARGEST_COMPOSITION];
    allocations allocated[LARGEST_COMPOSITION];
    side envelopes[LARGEST_COMPOSITION];
    unsigned mode = byte(&from);
    int sound = mode % 4 != 0, bypass = mode % 8 == 4, allocates = 0, encloses = 0, taken = 1;
    int count = 1 + (int)(byte(&from) % LARGEST_COMPOSITION);
    enum question question = (enum question)(mode / 8 % 3);
    double argument = number(&from), enough = number(&from);
    if (sound && question != LOG_DELTA)
        argument = -fabs(argument);
    for (int j = 0; j < count; j++) {
        round_law *law = &rounds[j];
        *law = (round_law){.branch = branches[j], .mu = mu[j], .gaussian_log_weight = log_weight[j]};
        law->branches = (int)(byte(&from) % (MOST_BRANCHES + 1));
        law->gaussians = (int)(byte(&from) % (MOST_BRANCHES + 1));
        if (law->branches + law->gaussians == 0)
            law->gaussians = 1;
        law->count = ldexp(number(&from), (int)(byte(&from) % 16));
        if (!(law->count >= 1.0 && law->count <= 0x1p53))
            law->count = 1.0 + byte(&from);
        law->count = floor(law->count);
        unsigned kind = byte(&from) % 8;
        if (kind == 5) {
            law->branches = law->gaussians = 0;
            envelopes[j] = read_side(&from, &memory[j][0][0], sound);
            memory[j][0][0].shift[0] = sound ? 0.0 : memory[j][0][0].shift[0];
            law->envelope = &envelopes[j];
            taken = taken && (bypass ? is_ordered(law->envelope) : is_law(law->envelope));
            encloses = 1;
            continue;
        }
        if (kind % 4 == 3) {
            law->branches = law->gaussians = 0;
            read_allocations(&from, &allocated[j], sound);
            law->allocated = &allocated[j].law;
            taken = taken && is_allocation_law(law->allocated);
            allocates = 1;
            continue;
        }
        double weights[2 * MOST_BRANCHES], total = 0.0;
        for (int b = 0; b < law->branches + law->gaussians; b++) {
            weights[b] = number(&from);
            if (sound) {
                weights[b] = isfinite(weights[b]) ? fmin(fabs(weights[b]), 1e3) + 1e-200 : 1.0;
                total += weights[b];
            }
        }
        for (int b = 0; b < law->branches + law->gaussians; b++) {
            double log_w = sound ? log(weights[b] / total) : weights[b];
            if (b < law->branches) {
                branch *of = &branches[j][b];
                *of = (branch){.log_weight = log_w, .weight = exp(log_w)};
                of->right = read_side(&from, &memory[j][b][0], sound);
                of->left = read_side(&from, &memory[j][b][1], sound);
                int fine = bypass ? is_ordered(&of->right) && is_ordered(&of->left) : is_law(&of->right) && is_law(&of->left);
                taken = taken && fine && isfinite(log_w) && log_w < 1e-9;
            } else {
                mu[j][b - law->branches] = sound ? fabs(number(&from)) : number(&from);
                log_weight[j][b - law->branches] = log_w;
                taken = taken && isfinite(log_w) && log_w < 1e-9 && mu[j][b - law->branches] >= 0.0 &&
                        isfinite(mu[j][b - law->branches]);
            }
        }
        taken = taken && (bypass || is_coin(law));
    }
    if (!taken) {
        calls++;
        refused++;
        return 0;
    }
    workspace space;
    take(&space, NULL);
    space.chunk = 1 << 16; /* fresh memory is what a sanitizer watches, and what takes its time */
    job work = {.question = question, .argument = argument, .enough = enough, .rounds = count, .whole = rounds};
    long before = answered;
    ask(&space, work);
    allocated_answers += allocates ? answered - before : 0;
    enclosed_answers += encloses ? answered - before : 0;
    forget(release(&space));
    if (mode >= 192) {
        take(&space, NULL);
        space.chunk = 1 << 16;
        ask_near(&space, work, number(&from));
        forget(release(&space));
    }
    return 0;
}

static void report(void)
{
    fprintf(stderr,
            "%ld kernel calls: %ld answered (%ld with allocations, %ld with envelopes), %ld refused as no law, %ld declined; 0 reports.\n",
            calls, answered, allocated_answers, enclosed_answers, refused, calls - answered - refused);
}

#ifdef STANDALONE
/* Without a fuzzer: random bytes, the same every time. */
int main(int count, char **arguments)
{
    long runs = count > 1 ? atol(arguments[1]) : 1000;
    uint64_t state = 0x9E3779B97F4A7C15u;
    uint8_t bytes[512];
    for (long run = 0; run < runs; run++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes[i] = (uint8_t)(state >> 32);
        }
        LLVMFuzzerTestOneInput(bytes, sizeof bytes);
    }
    report();
    return 0;
}
#else
int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    atexit(report);
    return 0;
}
#endif
