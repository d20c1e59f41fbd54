/* epsilon and log delta of several rounds of one envelope (S-110 to S-116). */
#include "arithmetic.h"
#include "envelope.h"

#define PLANS 8
#define MOST_STEPS 40
#define NEAR_THE_PLAN 0.02
#define MUCH_SMALLER 3.0
#define FARTHEST_STEP 0.5
#define FAR_FROM_THE_PLAN 0.2
#define SMALLEST_LOG_DELTA -300.0
/* Powers are right to 1e-9 or so up to here. */
#define MOST_ROUNDS 1e6
/* Bounds that are wider, relatively, are left to the lattice engine. */
#define NARROW_ENOUGH 1e-8

/* Where the sum itself is e^log_delta: Newton's method. */
static double root_of(const envelope_contour *path, double start, double log_delta)
{
    double epsilon = start, value, lower, upper, rate;
    for (int tries = 0; tries < MOST_STEPS; tries++) {
        delta_of_envelope(path, epsilon, &value, &lower, &upper, &rate);
        if (!(value > 0.0 && rate > 0.0))
            return -1.0;
        double step = (log(value) - log_delta) / rate, most = 0.25 * epsilon;
        step = step > most ? most : step < -most ? -most : step;
        epsilon += step;
        if (fabs(step) <= 1e-13 * epsilon || fabs(epsilon - start) > FARTHEST_STEP * start)
            break;
    }
    return epsilon;
}

/* The nearest epsilon found, in one direction, where delta is certainly on its side of the target. */
static int certain(const envelope_contour *path, double root, double target, double direction, double *epsilon)
{
    double value, lower, upper, rate, distance;
    delta_of_envelope(path, root, &value, &lower, &upper, &rate);
    distance = 1e-15 * root + 1.05 * (direction > 0.0 ? upper - target : target - lower) / (value * rate);
    for (int tries = 0; tries < 12 && distance < 0.01 * root; tries++, distance *= 2.0) {
        *epsilon = root + direction * distance;
        delta_of_envelope(path, *epsilon, &value, &lower, &upper, &rate);
        if (direction > 0.0 ? upper <= target : lower >= target)
            return 1;
    }
    return 0;
}

static int epsilon_of_rounds(workspace *space, const envelope *of, double times, double log_delta, answer *found)
{
    int roughly = 1;
    double slack = 8.0 * U * (1.0 + fabs(log_delta)), target = exp(log_delta), epsilon = guess_epsilon(space, of, times, log_delta);
    envelope_plan plan = {.tilt = 0.0};
    double low = least_epsilon(of, times, log_delta), high = INFINITY;
    bookmark place = mark(space);
    epsilon = larger(epsilon, low);
    for (int tries = 0; tries < PLANS; tries++) {
        rewind_to(space, place);
        if (!(epsilon > 0.0 && epsilon < 1e5) || !plan_envelope(space, of, times, epsilon, log_delta, roughly, &plan))
            decline(space, TRUNCATION);
        envelope_contour path = contour_of_envelope(space, of, times, &plan);
        double root = root_of(&path, epsilon, log_delta);
        found->nodes = path.nodes;
        found->samples = path.samples;
        found->evaluations = tries + 1;
        if (!(root > 0.0))
            decline(space, ROUNDED);
        if ((roughly || fabs(root - epsilon) > NEAR_THE_PLAN * epsilon) && tries < PLANS - 1) {
            int far = fabs(root - epsilon) > FAR_FROM_THE_PLAN * epsilon;
            roughly = roughly && far;
            if (root < epsilon)
                high = epsilon;
            else
                low = larger(low, epsilon);
            double middle = sqrt(low * high);
            epsilon = far && low > 0.0 && ((root < epsilon && middle < root) || (high < INFINITY && !(root < high && root > low))) ? middle : root;
            continue;
        }
        return certain(&path, root, target * (1.0 - 4.0 * slack), 1.0, &found->upper) &&
               certain(&path, root, target * (1.0 + 4.0 * slack), -1.0, &found->lower);
    }
    return 0;
}

static int log_delta_of_rounds(workspace *space, const envelope *of, double times, double epsilon, double log_delta, answer *found)
{
    envelope_plan plan = {.tilt = 0.0};
    double value, lower, upper, rate;
    bookmark place = mark(space);
    for (int tries = 0; tries < PLANS; tries++) {
        int roughly = tries == 0;
        rewind_to(space, place);
        if (!plan_envelope(space, of, times, epsilon, log_delta, roughly, &plan))
            decline(space, TRUNCATION);
        envelope_contour path = contour_of_envelope(space, of, times, &plan);
        delta_of_envelope(&path, epsilon, &value, &lower, &upper, &rate);
        *found = (answer){.nodes = path.nodes, .samples = path.samples, .evaluations = tries + 1};
        if (!(value > 0.0 && log(value) > log_delta - MUCH_SMALLER)) { /* planned for a delta that is too large */
            log_delta = smaller(value > 0.0 ? log(value) : log_delta, log_delta - MUCH_SMALLER);
            continue;
        }
        log_delta = log(value);
        if (!roughly)
            break;
    }
    if (!(lower > 0.0 && upper < INFINITY))
        return 0;
    found->lower = log(lower) - 16.0 * U * (1.0 + fabs(log(lower)));
    found->upper = smaller(log(upper) + 16.0 * U * (1.0 + fabs(log(upper))), 0.0);
    return 1;
}

/* 1 if it is answered; other questions about envelopes are declined. */
int solve_envelope(workspace *space, const job *work, answer *found)
{
    const round_law *law = &work->whole[0];
    double argument = work->argument;
    if (work->rounds != 1 || !(law->count >= 2.0 && law->count <= MOST_ROUNDS) || work->near != NULL || work->question == CEILING)
        decline(space, SHIFTS);
    if (work->question == EPSILON) {
        if (!(argument > SMALLEST_LOG_DELTA && argument < -0.5))
            decline(space, NO_NUMBER);
        envelope of = envelope_of(space, law->envelope, law->count, argument);
        int done = epsilon_of_rounds(space, &of, law->count, argument, found);
        return done && found->upper - found->lower <= NARROW_ENOUGH * found->upper;
    }
    if (!(argument > 0.0))
        decline(space, NO_NUMBER);
    double assumed = -40.0;
    for (int tries = 0; tries < 3; tries++) {
        envelope of = envelope_of(space, law->envelope, law->count, assumed);
        double log_delta = guess_log_delta(space, &of, law->count, argument) - MUCH_SMALLER;
        if (!(log_delta > SMALLEST_LOG_DELTA))
            decline(space, NO_NUMBER);
        if (log_delta - 10.0 < assumed) {
            assumed = log_delta - 15.0;
            continue;
        }
        return log_delta_of_rounds(space, &of, law->count, argument, log_delta, found) &&
               found->upper - found->lower <= NARROW_ENOUGH * larger(1.0, fabs(found->upper));
    }
    return 0;
}
