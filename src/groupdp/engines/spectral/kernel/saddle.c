/* Where to cross the real axis: the tilt whose saddle-point approximation has the delta, or the epsilon, asked for. */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_TRIES 60
/* A scan that begins too high is begun again, once, with all tilts so much lower. */
#define LOWER 1e-4

/* An epsilon so many standard deviations from the mean, or more, is not that of a Gaussian's tilt: the first quadratures
 * reach no further. */
#define GAUSSIAN_DEVIATIONS 500.0

/* Tilts around the saddle, as multiples of it, for the Chernoff bounds. */
static const double AROUND[] = {0.4, 0.6, 0.8, 1.15, 1.3, 1.5, 2.0, 3.0};
#define FARTHEST_AROUND 3.2

/* The same where the deviation of the loss is many times the inverse of the tilt, in units of the inverse deviation. */
static const double DEVIATIONS[] = {4.0, 6.0, 9.0, 12.0};

/* Tilts of parts that are this close to one wanted, relative to its distance from the saddle's, do for it. */
#define CLOSE_BY 0.3

static int is_close_by(const saddle *at, double tilt)
{
    double room = CLOSE_BY * fabs(tilt - at->tilt);
    for (int i = 0; i < at->found.size; i++)
        if (fabs(at->found.tilt[i] - tilt) < room)
            return 1;
    return 0;
}

/* More tilts, as multiples of the saddle's. */
void extend(workspace *space, saddle *at, const double *multiples, int count)
{
    for (int i = 0; i < count; i++) {
        double tilt = at->tilt * multiples[i];
        if (tilt <= at->by.largest && !(at->by.parts != NULL && is_close_by(at, tilt)))
            add_tilt(space, &at->by, &at->found, tilt);
    }
}

void extend_around(workspace *space, saddle *at) { extend(space, at, AROUND, sizeof AROUND / sizeof AROUND[0]); }

approximation approximate(const scan *found, int i)
{
    double c = found->tilt[i], one = 1.0 / c, other = 1.0 / (1.0 + c);
    approximation result = {.epsilon = found->mean[i] - one - other};
    result.curvature = found->variance[i] + one * one + other * other;
    result.log_delta = found->k[i] - c * result.epsilon - log(c) - log1p(c) - 0.5 * log(2.0 * PI * result.curvature);
    return result;
}

/* What is asked for: the tilt whose saddle-point approximation has this log delta, or this epsilon. */
typedef struct {
    int by_epsilon;
    double value;
} wanted;

/* Positive below the tilt that is asked for, negative above; `close` if it is near enough. `newton` becomes the next tilt of
 * Newton's method: d epsilon / d c is the curvature, and d log delta / d c about -c times that. Above, where both grow like
 * exponentials, it is about the logarithm of the excess. */
static double excess_at(const scan *found, int i, wanted what, int *close, double *newton)
{
    approximation there = approximate(found, i);
    double excess = what.by_epsilon ? what.value - there.epsilon : there.log_delta - what.value;
    *close = what.by_epsilon ? excess * excess < 0.1 * there.curvature : fabs(excess) < 0.3;
    double way = excess < 0.0 ? -log1p(-excess) * (1.0 - excess) : excess;
    *newton = found->tilt[i] + way / (there.curvature * (what.by_epsilon ? 1.0 : found->tilt[i]));
    return excess;
}

/* The tilt asked for, up to `largest`; positive, or 0 if the scan would have to reach further, or negative if it would
 * have to begin lower. Along increasing tilts epsilon rises and log delta falls, so it is bracketed and found by
 * Newton's method, by the secant and by bisection, in log c. */
static int find_tilt(workspace *space, saddle *at, wanted what, double expected)
{
    scan *found = &at->found;
    double low = at->by.largest * SMALLEST_SHARE, high = at->by.largest;
    double tilt = smaller(larger(expected, 2.0 * low), 0.5 * high), low_excess = 0.0, high_excess = 0.0;
    double newton;
    for (int i = 0, close = 0; i < found->size && high_excess == 0.0 && !close; i++) { /* what is known already */
        double excess = excess_at(found, i, what, &close, &newton);
        *(excess > 0.0 ? &low : &high) = tilt = found->tilt[i];
        *(excess > 0.0 ? &low_excess : &high_excess) = excess;
        if (!close && low_excess > 0.0 && high_excess < 0.0)
            tilt = low * pow(high / low, low_excess / (low_excess - high_excess));
    }
    for (int tries = 0;; tries++) {
        int i = add_tilt(space, &at->by, found, tilt), close;
        double excess = excess_at(found, i, what, &close, &newton);
        if (isnan(excess) || tries == MOST_TRIES)
            decline(space, ALIASES);
        if (!close && excess < 0.0 && tilt == at->by.largest * SMALLEST_SHARE && !at->by.lowered)
            return -1; /* large losses are so rare that the deviation says nothing about them */
        if (close || tilt == at->by.largest * SMALLEST_SHARE) {
            if (tilt + 14.0 / sqrt(found->variance[i]) > at->by.largest)
                return 0; /* the aliases on the right could not be bounded */
            approximation there = approximate(found, i);
            at->tilt = tilt;
            at->deviation = sqrt(found->variance[i]);
            at->epsilon = there.epsilon;
            at->log_delta = there.log_delta;
            /* Along the tangent to what was asked for: d log delta / d epsilon is -c. */
            if (what.by_epsilon) {
                at->epsilon = what.value;
                at->log_delta = smaller(there.log_delta - tilt * (what.value - there.epsilon), 0.0);
            } else {
                at->epsilon += (there.log_delta - what.value) / tilt;
                at->log_delta = what.value;
            }
            return 1;
        }
        if (excess > 0.0) {
            if (tilt == at->by.largest)
                return 0;
            low = tilt;
            low_excess = excess;
        } else {
            high = tilt;
            high_excess = excess;
        }
        double share = 0.5;
        if (low_excess > 0.0 && high_excess < 0.0 && tries % 4 != 3)
            share = smaller(larger(asinh(low_excess) / (asinh(low_excess) - asinh(high_excess)), 0.05), 0.95);
        if (tries % 4 != 3 && newton > larger(low, tilt / 3.0) && newton < smaller(high, 3.0 * tilt))
            tilt = newton;
        else if (low_excess > 0.0 && high_excess == 0.0)
            tilt = smaller(3.0 * low, at->by.largest); /* no tilt above it yet: reach out */
        else if (low_excess == 0.0)
            tilt = larger(high / 3.0, at->by.largest * SMALLEST_SHARE);
        else
            tilt = low * pow(high / low, share);
    }
}

static saddle find_saddle(workspace *space, const prepared *problem, wanted what, double largest, double expected)
{
    for (int lowered = 0;;) {
        saddle at = start_scan(space, problem, largest);
        at.by.lowered = lowered;
        int sign = find_tilt(space, &at, what, expected);
        if (sign > 0)
            return at;
        largest *= sign == 0 ? 4.0 : LOWER;
        lowered |= sign < 0;
    }
}

/* The same for a composition of parts; their quadratures are planned anew where they do not reach. */
saddle saddle_of_parts(workspace *space, parts_scan *parts, const double *times, double epsilon, double expected)
{
    wanted what = {.by_epsilon = 1, .value = epsilon};
    for (int lowered = 0;;) {
        saddle at = start_scan_of_parts(space, parts, times);
        at.by.lowered = lowered;
        int sign = find_tilt(space, &at, what, expected);
        if (sign > 0) {
            extend_around(space, &at);
            return at;
        }
        scan_parts(space, parts, parts->by.largest * (sign == 0 ? 4.0 : LOWER));
        lowered |= sign < 0;
    }
}

/* How far a composition's K exceeds that of a Gaussian before its tilt is chosen below the saddle's. */
#define EXPLODED 2.0
/* What a lower tilt may cost, as the logarithm of a factor of all errors. */
#define RETREAT 1.5
/* The most that log(e^{K(c) - c epsilon} / (c (1 + c) delta)) may be at the best tilt, about. */
#define EXCESS 3.0
#define SCANNED 28
/* The most that K may be wrong by at the tilt of a contour, relative to that tilt. */
#define MOST_DOUBT 1e-9
#define SCAN_RATIO 1.18

static double chernoff_at(const scan *found, int i, double epsilon)
{
    double c = found->tilt[i];
    return found->k[i] - c * epsilon - log(c) - log1p(c);
}

/* What K may be wrong by at a tilt. */
static double doubt_at(const scan *found, int i)
{
    double c = found->tilt[i];
    return found->level[i] - found->k[i] + c * log1p(1.0 / c) + log1p(c);
}

static int best_tilt(const scan *found, double epsilon)
{
    int best = 0;
    for (int i = 1; i < found->size; i++)
        if (chernoff_at(found, i, epsilon) < chernoff_at(found, best, epsilon))
            best = i;
    return best;
}

/* About log delta at an epsilon: by the curvature at the best tilt, unless that belongs to a single large place; or, for a
 * tilt that is lower, the least that it may be. */
static double about(const workspace *space, const scan *found, double epsilon)
{
    int best = best_tilt(found, epsilon);
    double excess = smaller(0.5 * log(2.0 * PI * approximate(found, best).curvature), EXCESS);
    return chernoff_at(found, best, epsilon) - (space->lower_tilt ? EXCESS : excess);
}

/* With random allocations K explodes where moments belong to a single large place: the tilt is the best of those scanned,
 * or a lower one that costs little, so that tilts above it bound the aliases. */
static saddle saddle_of_allocations(workspace *space, const prepared *problem, wanted what, double largest)
{
    saddle at = start_scan(space, problem, largest);
    scan *found = &at.found;
    double tilt = at.by.largest;
    for (int i = 0; i < SCANNED; i++, tilt /= SCAN_RATIO)
        add_tilt(space, &at.by, found, tilt);
    while (found->size > 2 && !isfinite(found->level[found->size - 1])) { /* without a bound a tilt is of no use */
        found->size--;
        at.by.limited = 1;
    }
    at.epsilon = what.value;
    if (!what.by_epsilon) {
        double low = 0.0, high = 1.0;
        while (high < 1e9 && about(space, found, high) > what.value)
            high *= 2.0;
        for (int i = 0; i < 50; i++) {
            double middle = 0.5 * (low + high);
            if (about(space, found, middle) > what.value)
                low = middle;
            else
                high = middle;
        }
        at.epsilon = high > 1e-9 ? high : 0.0;
    }
    int best = best_tilt(found, at.epsilon), chosen = best;
    double least = chernoff_at(found, best, at.epsilon);
    if (best == found->size - 1 && !at.by.limited)
        return saddle_of_allocations(space, problem, what, 2.0 * largest);
    at.exploded = found->variance[best] > EXPLODED * found->variance[0];
    if (at.exploded || best == found->size - 1)
        while (chosen > 0 && chernoff_at(found, chosen - 1, at.epsilon) < least + RETREAT)
            chosen--;
    while (problem->curves && chosen > 0 && doubt_at(found, chosen) > MOST_DOUBT * (10.0 + found->tilt[chosen])) /* good for a bound on the aliases alone */
        chosen--;
    if (chosen == found->size - 1 && chosen > 0) /* no tilt above it would bound the aliases */
        chosen--;
    at.tilt = found->tilt[chosen];
    at.deviation = problem->deviation;
    at.log_delta = what.by_epsilon ? smaller(about(space, found, what.value), 0.0) : what.value;
    return at;
}

/* The tilt whose saddle-point approximation gives e^log_delta, without the tilts around it. */
saddle saddle_alone_for_delta(workspace *space, const prepared *problem, double log_delta)
{
    double root = sqrt(2.0 * larger(-log_delta, 0.0));
    wanted what = {.value = log_delta};
    if (problem->allocates)
        return saddle_of_allocations(space, problem, what, (1.3 * root + 8.0) / problem->deviation);
    return find_saddle(space, problem, what, (1.5 * root + 18.0) / problem->deviation, root / problem->deviation);
}

saddle saddle_for_delta(workspace *space, const prepared *problem, double log_delta)
{
    saddle at = saddle_alone_for_delta(space, problem, log_delta);
    if (!problem->allocates)
        extend_around(space, &at);
    return at;
}

/* The tilt that minimises K(c) - c epsilon - log c - log(1 + c): the approximation's epsilon is its derivative. */
saddle saddle_for_epsilon(workspace *space, const prepared *problem, double epsilon)
{
    double deviation = problem->deviation;
    double distance = larger(epsilon - problem->mean, 0.0) / (deviation * deviation);
    distance = smaller(distance, GAUSSIAN_DEVIATIONS / deviation);
    wanted what = {.by_epsilon = 1, .value = epsilon};
    if (problem->allocates)
        return saddle_of_allocations(space, problem, what, 1.5 * distance + 10.0 / deviation);
    saddle at = find_saddle(space, problem, what, 2.0 * distance + 24.0 / deviation, distance + 1.0 / deviation);
    extend_around(space, &at);
    return at;
}

/* The same where the tilt may be nearly known: tilts are scanned no further than the Chernoff bounds around it need. */
saddle saddle_nearby(workspace *space, const prepared *problem, double epsilon, near_tilt expected)
{
    if (problem->allocates || !(expected.tilt > 0.0 && expected.tilt < INFINITY))
        return saddle_for_epsilon(space, problem, epsilon);
    wanted what = {.by_epsilon = 1, .value = epsilon};
    double deviation = expected.deviation > 0.0 ? expected.deviation : problem->deviation;
    double largest = larger(FARTHEST_AROUND * expected.tilt, expected.tilt + 24.0 / deviation);
    saddle at = find_saddle(space, problem, what, largest, expected.tilt);
    extend_around(space, &at);
    return at;
}

/* The same far out, where the loss's deviation says nothing about the tilt: as if the largest shift were taken in every
 * round, whose losses are log a + x u - x^2 / 2 with u about (1 + c) x. */
saddle saddle_far_out(workspace *space, const prepared *problem, double epsilon)
{
    double squares = 0.0, loss = epsilon;
    for (int i = 0; i < problem->rounds; i++) {
        const round_law *law = &problem->round[i];
        double largest = 0.0, log_weight = 0.0;
        for (int b = 0; b < law->branches; b++) {
            const side *right = &law->branch[b].right;
            if (largest_shift(right) > largest) {
                largest = largest_shift(right);
                log_weight = law->branch[b].log_weight + right->log_p[right->size - 1];
            }
        }
        for (int b = 0; b < law->gaussians; b++)
            if (law->mu[b] > largest) {
                largest = law->mu[b];
                log_weight = law->gaussian_log_weight[b];
            }
        squares += law->count * largest * largest;
        loss -= law->count * log_weight;
    }
    double tilt = loss / squares;
    if (!(squares > 0.0 && !problem->allocates && tilt < INFINITY))
        decline(space, RARE_LOSSES);
    wanted what = {.by_epsilon = 1, .value = epsilon};
    saddle at = find_saddle(space, problem, what, 2.0 * tilt + 24.0 / sqrt(squares), tilt);
    extend_around(space, &at);
    for (int i = 0; i < (int)(sizeof DEVIATIONS / sizeof DEVIATIONS[0]); i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double near = at.tilt + sign * DEVIATIONS[i] / at.deviation;
            if (near > at.by.largest * SMALLEST_SHARE && near <= at.by.largest)
                add_tilt(space, &at.by, &at.found, near);
        }
    return at;
}
