/* A composition made ready for a given size of delta (rounds.py, thinning.py, prepare.py; section 5). */
#include "arithmetic.h"
#include "spectral.h"

#define SMALLEST_SHIFT 1e-290
#define LARGEST_SHIFT 1e7
/* Dropped components and discarded outcomes may cost this much (e^-36) of delta, each. */
#define LOG_TRIM -36.0
#define NARROWEST_THINNING 1e-3
#define THINNED_ABOVE -20.0
/* Plain Gaussian rounds are cut into at least this many, of a shift of at most 1. */
#define DIVISIONS 256.0

static double log_normal_cdf(double t)
{
    if (t >= 9.0)
        return 0.0;
    if (t > 0.0)
        return log1p(-0.5 * erfc(t * 0.70710678118654752440));
    if (t >= -35.0)
        return log(0.5 * erfc(-t * 0.70710678118654752440));
    /* 1 - y + 3 y^2 - ...: alternating, the first term left out is below 3e-17 at |t| = 35. */
    double y = 1.0 / (t * t);
    double series = -y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y * (1.0 - 9.0 * y * (1.0 - 11.0 * y)))));
    return -0.5 * t * t - HALF_LOG_2PI - log(-t) + log1p(series);
}

double log_keep(const thinning *thin, double u) { return log_normal_cdf((thin->edge - u) / thin->width); }

/* |d log chi / du|, or a little more: increasing in u, and below 1e-18 / w at t = -9. */
double steepness(const thinning *thin, double u)
{
    double t = (u - thin->edge) / thin->width;
    if (t < -9.1)
        return 1e-18 / thin->width;
    return exp(-0.5 * t * t - HALF_LOG_2PI - log_normal_cdf(-t)) / thin->width;
}

/* Keeps the smallest sensitivities, drops at most e^log_budget of probability: a law stochastically dominated by the
 * true one. */
static round_law trimmed(workspace *space, const round_law *whole, double log_budget)
{
    int keep = whole->size;
    double tail = -INFINITY, log_dropped = -INFINITY;
    while (keep > 1) {
        if (keep == 2 && whole->m[0] == 0.0)
            break; /* one component that differs from the plain Gaussian stays */
        /* The rounding of accumulated logarithms is far below this slack. */
        double with_it = log_add(tail, whole->log_p[keep - 1]);
        if (with_it + 1e-6 > log_budget)
            break;
        tail = with_it;
        log_dropped = tail + 1e-6;
        keep--;
    }
    round_law result = *whole;
    result.size = keep;
    result.log_dropped = log_dropped;
    if (log_dropped > -INFINITY) {
        double *p = doubles(space, keep), *log_p = doubles(space, keep);
        double shift = log1p(-exp(log_dropped)), factor = exp(-shift);
        for (int i = 0; i < keep; i++) {
            p[i] = whole->p[i] * factor;
            log_p[i] = whole->log_p[i] - shift;
        }
        result.p = p;
        result.log_p = log_p;
    }
    return result;
}

/* A Gaussian is infinitely divisible: T rounds of shift m are T' rounds of m sqrt(T / T'), T' any real number. */
static void divide(workspace *space, round_law *law)
{
    if (law->size > 1)
        return;
    double divisions = larger(DIVISIONS, law->count * law->m[0] * law->m[0]);
    if (law->count >= divisions)
        return;
    double *m = doubles(space, 1);
    m[0] = law->m[0] * sqrt(law->count / divisions);
    law->m = m;
    law->count = divisions;
}

/* The lowest edge that discards at most e^log_budget, each component an equal share: Phi(-z) <= e^{-z^2/2} / 2. */
static thinning discard(const round_law *law, double width, double log_budget)
{
    double spread = sqrt(1.0 + width * width), edge = -INFINITY, discarded = -INFINITY;
    for (int i = 0; i < law->size; i++) {
        double room = law->log_p[i] + log(law->size) - log_budget - LOG_2;
        edge = larger(edge, law->m[i] + spread * sqrt(2.0 * larger(room, 0.0)));
    }
    for (int i = 0; i < law->size; i++) {
        double z = (edge - law->m[i]) / spread;
        discarded = log_add(discarded, law->log_p[i] - LOG_2 - 0.5 * z * z);
    }
    return (thinning){.thinned = 1, .edge = edge, .width = width, .log_discarded = discarded + 1e-6};
}

/* Thinned if a tilt of the size expected would pile mass up beyond anything that matters. */
static void thin_out(round_law *law, double tilt, double log_budget)
{
    double a = 1.0 + tilt, beyond = -INFINITY;
    double width = smaller(larger(3.0 / (a * law->m[law->size - 1]), NARROWEST_THINNING), 1.0);
    thinning thin = discard(law, width, log_budget);
    for (int i = 0; i < law->size; i++) {
        double short_of_it = larger(thin.edge - a * law->m[i], 0.0);
        double level = a * law->log_p[i] + 0.5 * a * (a - 1.0) * law->m[i] * law->m[i];
        beyond = larger(beyond, level - 0.5 * short_of_it * short_of_it);
    }
    if (beyond > THINNED_ABOVE)
        law->thin = thin;
}

/* The rounds, trimmed for a delta of e^log_delta. */
prepared trim(workspace *space, int phases, const round_law *whole, enum direction direction, double log_delta)
{
    double total = 0.0, finest = INFINITY, ceiling = 0.0;
    for (int j = 0; j < phases; j++) {
        const round_law *law = &whole[j];
        double smallest = law->m[0] > 0.0 || law->size == 1 ? law->m[0] : law->m[1];
        if (!(smallest >= SMALLEST_SHIFT && law->m[law->size - 1] <= LARGEST_SHIFT))
            decline(space);
        finest = smaller(finest, smallest);
        total += law->count;
        ceiling += law->m[0] == 0.0 ? -law->count * law->log_p[0] : INFINITY;
    }
    prepared result = {.phases = phases, .direction = direction, .log_dropped = -INFINITY};
    /* Losses as small as the finest shift move delta's scale in epsilon accordingly. */
    result.log_budget = smaller(log_delta, 0.0) - log(total) + LOG_TRIM - 2.0 * larger(0.0, -log(finest));
    result.rounds = allocate(space, phases * sizeof(round_law));
    for (int j = 0; j < phases; j++) {
        round_law *law = &result.rounds[j];
        *law = trimmed(space, &whole[j], result.log_budget);
        divide(space, law);
        result.log_dropped = log_add(result.log_dropped, law->log_dropped + log(law->count));
    }
    /* The sum of positive terms, rounded up. */
    result.largest_loss = direction == ADD ? ceiling * (1.0 + 1e-14 + phases * 4.0 * U) : INFINITY;
    loss_scale(space, &result);
    return result;
}

prepared prepare(workspace *space, int phases, const round_law *whole, enum direction direction, double log_delta)
{
    prepared result = trim(space, phases, whole, direction, log_delta);
    double tilt = (sqrt(2.0 * larger(-log_delta, 0.0)) + 1.0) / result.deviation;
    for (int j = 0; direction == REMOVE && j < phases; j++) {
        round_law *law = &result.rounds[j];
        thin_out(law, tilt, result.log_budget);
        if (law->thin.thinned)
            result.log_dropped = log_add(result.log_dropped, law->thin.log_discarded + log(law->count));
    }
    return result;
}
