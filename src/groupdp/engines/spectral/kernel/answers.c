/* The questions, and in which order the ways of ways.c are tried. */
#include "arithmetic.h"
#include "envelope.h"

/* Wide bounds with allocations are given if they are this narrow: the lattice engine answers those to 1e-3. */
#define ACCEPTABLE_ALLOCATED 1e-3
/* A coin is tried without more of its products if that took no more than this; no effect on validity. */
#define LITTLE_WORK 1e9
/* So many deviations are far out; no effect on validity. */
#define FAR_DEVIATIONS 10.0

/* P and Q exchanged. */
round_law *exchanged(workspace *space, const job *work)
{
    round_law *result = allocate(space, work->rounds * sizeof(round_law));
    for (int j = 0; j < work->rounds; j++) {
        result[j] = work->whole[j];
        result[j].branch = allocate(space, (result[j].branches + 1) * sizeof(branch));
        if (result[j].allocated != NULL) {
            allocation_law *turned = allocate(space, sizeof(allocation_law));
            if (result[j].allocated->factor[0].atoms != NULL)
                decline(space, RARE_LOSSES);
            *turned = *result[j].allocated;
            turned->reverse = !turned->reverse;
            result[j].allocated = turned;
        }
        for (int b = 0; b < result[j].branches; b++) {
            result[j].branch[b] = work->whole[j].branch[b];
            result[j].branch[b].right = work->whole[j].branch[b].left;
            result[j].branch[b].left = work->whole[j].branch[b].right;
        }
    }
    return result;
}

/* log of 1 - e^eps + e^eps delta', delta' the curve with P and Q exchanged at -eps (S-26); moved outward. For eps > 0 two
 * positive terms are subtracted, and their rounding is charged. */
double log_from_exchanged(double epsilon, double log_exchanged, double direction)
{
    double kept = exp(epsilon) * -expm1(log_exchanged); /* e^eps (1 - delta') */
    if (epsilon <= 0.0) {
        double value = kept < 0.5 ? log1p(-kept) : log(exp(epsilon + log_exchanged) - expm1(epsilon));
        return smaller(value + direction * 1e-14 * fabs(value), 0.0);
    }
    double plus = exp(epsilon + log_exchanged), minus = expm1(epsilon);
    double rest = larger(plus - minus + direction * 1e-13 * (1.0 + epsilon) * (plus + minus), 0.0);
    return smaller(log(rest) + direction * 1e-14, 0.0);
}

/* Whether bounds are narrow enough to be given. */
static int given(const workspace *space, const answer *found)
{
    return acceptable(found, space->allocates ? ACCEPTABLE_ALLOCATED : ACCEPTABLE);
}

/* Whether epsilon is so many deviations beyond the mean of a Gaussian that dominates the rounds (P-11): the tilt is then
 * far from what the deviation of the loss says, and the way for that comes first. No effect on validity. */
static int is_far_out(const job *work)
{
    double squares = 0.0;
    for (int j = 0; j < work->rounds; j++) {
        const round_law *law = &work->whole[j];
        double largest = 0.0;
        if (law->allocated != NULL)
            return 0;
        for (int b = 0; b < law->branches; b++)
            largest = larger(largest, largest_shift(&law->branch[b].right) + largest_shift(&law->branch[b].left));
        for (int b = 0; b < law->gaussians; b++)
            largest = larger(largest, law->mu[b]);
        squares += law->count * largest * largest;
    }
    return work->argument - 0.5 * squares > FAR_DEVIATIONS * sqrt(squares);
}

/* The ways in the order in which they are tried: short contours first. */
static const struct {
    enum way way;
    int brief;
} ORDER[] = {{NEAR, 1}, {SPLIT, 0}, {NEAR, 0}, {WHOLE, 0}};

static void ask_far_out(workspace *space, course *along, int brief)
{
    space->far = 1;
    space->brief = brief;
    attempt(space, log_delta_far_out, along);
    if (!along->settled && space->reason != WORK)
        attempt(space, log_delta_beside_small, along);
    space->far = space->brief = 0;
}

static void ask_log_delta(workspace *space, course *along)
{
    int far_out = is_far_out(along->work);
    if (far_out)
        ask_far_out(space, along, 1);
    if (!along->settled && space->reason != WORK)
        attempt(space, log_delta_directly, along);
    if (!along->settled && !far_out && space->reason != WORK)
        ask_far_out(space, along, 1);
    space->brief = 0;
    for (int i = 0; i < 3 && !along->settled && space->reason != WORK; i++) {
        along->way = ORDER[i].way;
        space->brief = ORDER[i].brief;
        attempt(space, log_delta_by_search, along);
        space->brief = 0;
    }
    along->insists = 1;
    if (!along->settled && along->heavy && space->reason != WORK && !given(space, &along->best))
        attempt(space, log_delta_directly, along);
    if (!along->settled && space->reason != WORK && !given(space, &along->best))
        ask_far_out(space, along, 0);
    if (along->settled || given(space, &along->best))
        return;
    /* Without cuts and lines off the axis: the last ways have as much work of their own, whatever the others took. */
    space->work = 0.0;
    space->plain = 1;
    along->way = NEAR;
    attempt(space, log_delta_by_search, along);
    if (!given(space, &along->best) && along->heavy && space->reason != WORK)
        attempt(space, log_delta_directly, along);
    space->plain = 0;
}

static void log_delta_below_zero(workspace *space, course *along)
{
    job turned = *along->work, *work = along->work;
    turned.whole = exchanged(space, work);
    turned.argument = -work->argument;
    course other = {.work = &turned, .best = {.lower = -INFINITY, .upper = INFINITY}};
    ask_log_delta(space, &other);
    if (other.best.upper == INFINITY)
        decline(space, space->reason);
    along->best = other.best;
    along->best.lower = log_from_exchanged(work->argument, other.best.lower, -1.0);
    along->best.upper = log_from_exchanged(work->argument, other.best.upper, 1.0);
}

static void in_closed_form(workspace *space, course *along)
{
    answer found = {.lower = 0.0}, wide = {.lower = -INFINITY, .upper = INFINITY};
    along->settled = solve_one_round(space, along->work, &found);
    if (along->settled) {
        along->best = found;
    } else {
        along->settled = solve_one_allocation(space, along->work, &wide);
        if (along->work->near == NULL || along->settled) /* other ways may be narrower */
            along->best = wide;
    }
}

static int solve_once(workspace *space, job *work)
{
    course along = {.work = work, .best = {.lower = -INFINITY, .upper = INFINITY}};
    space->reason = ANSWERED;
    space->work = 0.0;
    space->reversed = NULL;
    if (!isfinite(work->argument)) {
        space->reason = NO_NUMBER;
        return 0;
    }
    if (work->rounds == 1 && work->whole[0].count == 1.0) {
        attempt(space, in_closed_form, &along);
        if (along.settled) {
            work->found = along.best;
            space->reason = TOO_WIDE;
            return along.best.lower <= along.best.upper && given(space, &along.best);
        }
    }
    if (work->question == CEILING) {
        attempt(space, ceiling_by_chernoff, &along);
        work->found = along.best;
        if (along.scanned && !(along.best.upper >= 0.0))
            space->reason = CONTRADICTION;
        return along.scanned && along.best.upper >= 0.0;
    }
    if (work->question == EPSILON && !space->uncut && work->whole[0].allocated != NULL) {
        attempt(space, epsilon_by_curves, &along);
        if (along.settled) {
            work->found = along.best;
            return along.best.lower <= along.best.upper;
        }
        along = (course){.work = work, .best = {.lower = -INFINITY, .upper = INFINITY}};
        space->reason = ANSWERED;
        space->work = 0.0;
    }
    if (work->question == EPSILON) {
        attempt(space, epsilon_directly, &along);
        space->brief = 0;
        along.roughly = 1;
        for (int i = 0; i < 4 && (along.scanned || along.heavy) && !along.settled && space->reason != WORK; i++) {
            if (ORDER[i].way == WHOLE && !along.scanned) {
                along.insists = 1;
                attempt(space, epsilon_directly, &along);
                if (!along.scanned || along.settled)
                    break;
            }
            along.way = ORDER[i].way;
            space->brief = ORDER[i].brief;
            attempt(space, epsilon_by_search, &along);
            space->brief = 0;
        }
        if (!along.settled && along.heavy && !given(space, &along.best)) {
            space->work = 0.0; /* a long contour comes last, and has as much work of its own */
            along.last = 1;
            attempt(space, epsilon_directly, &along);
        }
    } else if (work->argument < 0.0) {
        attempt(space, log_delta_below_zero, &along);
    } else {
        ask_log_delta(space, &along);
    }
    work->found = along.best;
    if (!(along.best.lower <= along.best.upper)) {
        space->reason = CONTRADICTION;
        return 0;
    }
    if (given(space, &along.best))
        return 1;
    if (space->reason == ANSWERED || along.best.upper < INFINITY)
        space->reason = TOO_WIDE;
    return 0;
}

static void by_envelope(workspace *space, course *along)
{
    answer found = {.lower = 0.0};
    along->settled = solve_envelope(space, along->work, &found);
    along->best = found;
}

static int solve_with_envelopes(workspace *space, job *work)
{
    course along = {.work = work};
    space->reason = TOO_WIDE;
    space->work = 0.0;
    if (!attempt(space, by_envelope, &along))
        return 0;
    work->found = along.best;
    return along.settled && along.best.lower <= along.best.upper;
}

/* Where places were cut in vain, whole ones are tried; where a coin was kept in vain, without more of its rare products. */
int solve(workspace *space, job *work)
{
    for (int j = 0; j < work->rounds; j++)
        if (work->whole[j].envelope != NULL)
            return solve_with_envelopes(space, work);
    space->cuts = space->uncut = space->coins = 0;
    space->coarse = work->question == CEILING ? 2 : 0;
    int done = solve_once(space, work);
    while (!done && space->coins && work->question == EPSILON && space->coarse < 2 && space->work < LITTLE_WORK) {
        space->coarse++;
        done = solve_once(space, work);
    }
    if (done || !space->cuts || work->question == CEILING)
        return done;
    answer before = work->found;
    space->uncut = 1;
    done = solve_once(space, work);
    if (!done && before.upper - before.lower < work->found.upper - work->found.lower)
        work->found = before;
    return done;
}
