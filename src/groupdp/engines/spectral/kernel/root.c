/* From delta to epsilon: Newton on the samples, then outward until both sides are certified (S-25). */
#include "arithmetic.h"
#include "spectral.h"

/* A tilted law so many times wider than the loss is about rare, large losses. */
#define HEAVY 8.0
/* Newton's method takes fewer steps than this unless they overshoot each other; no effect on validity. */
#define CYCLE 10
/* A contour is good for a root whose log delta is this close to that at its own epsilon. */
#define CLOSE 0.5
/* Coarse contours that may miss the root by more than the closed forms of large losses allow. */
#define PATIENCE 6
/* A step of Newton's method that is this part of epsilon ends within about 1.5 times its square of the root: the closed
 * forms allow that. No effect on validity. */
#define SHORT_STEP 0.06
/* Beside the deviation of the loss, an epsilon below this is next to 0. */
#define NEXT_TO_ZERO 1e-9
/* A contour planned for an epsilon this close to the root, relatively, is at the root. */
#define AT_THE_ROOT 1e-4
/* Closed forms that alone make the bounds so many times wider than a narrow answer are not worth a contour. */
#define WIDE_FORMS 10.0
/* Doublings of the distance from the root before giving up on certifying a side. */
#define OUTWARD 40

/* (lower, upper) of log delta(epsilon) of the composition as trimmed: the contour's part, and what is known of the
 * outcomes discarded (S-14). */
static void as_trimmed(const prepared *problem, const contour *path, double epsilon, double *lower, double *upper)
{
    contour_log_delta(path, epsilon, lower, upper);
    if (!problem->discarded.exact)
        return;
    double log_least, log_most;
    bound_discarded(&problem->discarded, epsilon, &log_least, &log_most);
    *lower = log_add(*lower, log_least);
    *lower -= isfinite(*lower) ? 4e-15 * (1.0 + fabs(*lower)) : 0.0;
    *upper = smaller(log_add(*upper, log_most) + 4e-15 * (1.0 + fabs(*upper)), 0.0);
}

/* Certified (lower, upper) of log delta(epsilon) for the composition before trimming. */
void corrected(const prepared *problem, const contour *path, double epsilon, double *lower, double *upper)
{
    if (epsilon >= problem->largest_loss) { /* S-3 */
        *lower = *upper = -INFINITY;
        return;
    }
    double unused;
    as_trimmed(problem, path, epsilon, lower, upper);
    if (problem->shift > 0.0) /* S-11 */
        as_trimmed(problem, path, nextafter(epsilon - problem->shift, -INFINITY), &unused, upper);
    if (problem->log_dropped > -INFINITY) /* S-10, S-12, S-13 */
        *upper = smaller(log_add(*upper, problem->log_dropped) + 1e-15 * (1.0 + fabs(*upper)), 0.0);
}

/* log delta without corrections, and its derivative. */
void uncorrected(const prepared *problem, const contour *path, double epsilon, double *value, double *slope)
{
    contour_slope(path, epsilon, value, slope);
    const discarded_part *part = &problem->discarded;
    if (!part->exact || part->log_p == -INFINITY)
        return;
    double q = exp(epsilon + part->log_q - part->log_p); /* relative to p */
    if (!(q < 1.0))
        return;
    double known = part->log_p + log1p(-q), known_slope = -q / (1.0 - q);
    if (!isfinite(*value)) {
        *value = known;
        *slope = known_slope;
        return;
    }
    double both = log_add(*value, known), share = exp(*value - both);
    *slope = share * *slope + (1.0 - share) * known_slope;
    *value = both;
}

/* The root of the uncorrected sum, by Newton's method on the samples, and by halves of what is left where its steps
 * overshoot each other; `rate` is |d log delta / d epsilon| there. */
static double find_root(workspace *space, const prepared *problem, const contour *path, double start, double target,
                        double *rate, int *evaluations)
{
    double root = start, low = 0.0, high = INFINITY;
    for (int i = 0; i < 30; i++) {
        double value, slope;
        uncorrected(problem, path, root, &value, &slope);
        ++*evaluations;
        if (!(isfinite(value) && isfinite(slope) && slope < 0.0))
            decline(space, TOO_WIDE);
        *(value > target ? &low : &high) = root;
        double change = (target - value) / slope, farthest = path->period / 8.0;
        double next = larger(root + larger(smaller(change, farthest), -farthest), 0.0);
        if (i >= CYCLE && high < INFINITY && !(next > low && next < high))
            next = 0.5 * (low + high);
        /* The last step of Newton's method squares the distance: what is left is beyond doubles. */
        int settled = fabs(next - root) <= 1e-9 * next;
        root = next;
        *rate = -slope;
        if (settled)
            break;
    }
    return root;
}

/* An epsilon at or above the root whose certified upper side is at or below the target; infinite if none is near.
 * `upper` is that side at the root itself. */
static double certified_above(const prepared *problem, const contour *path, double root, double target, double rate,
                              double upper, int *evaluations)
{
    double lower, distance = larger((upper - target) / rate, 0.0) * 1.05 + 4e-16 * root;
    for (int i = 0; i < OUTWARD; i++) {
        double candidate = smaller(root + distance, problem->largest_loss);
        ++*evaluations;
        corrected(problem, path, candidate, &lower, &upper);
        if (upper <= target)
            return candidate;
        distance = larger(2.0 * distance, 1e-300);
    }
    return INFINITY;
}

/* An epsilon at or below the root whose certified lower side is at or above the target; 0 if none is near. `lower` is
 * that side at the root itself. */
static double certified_below(const prepared *problem, const contour *path, double root, double target, double rate,
                              double lower, int *evaluations)
{
    double upper, distance = larger((target - lower) / rate, 0.0) * 1.05 + 4e-16 * root;
    for (int i = 0; i < OUTWARD && root - distance > 0.0; i++) {
        ++*evaluations;
        corrected(problem, path, root - distance, &lower, &upper);
        if (lower >= target)
            return root - distance;
        distance = larger(2.0 * distance, 1e-300);
    }
    return 0.0;
}

/* The target is a rounded logarithm: each side is certified against the worse of its neighbours. */
static double slack_of(double target) { return 4.0 * U * fabs(target); }

/* The root near `start` on one contour, certified on both sides. */
void enclose_root(workspace *space, const prepared *problem, const contour *path, double start, double target,
                  answer *result)
{
    result->nodes = path->nodes;
    result->samples = path->samples;
    double rate, lower, upper, slack = slack_of(target);
    double root = find_root(space, problem, path, start, target, &rate, &result->evaluations);
    corrected(problem, path, root, &lower, &upper);
    result->root = root;
    result->upper = certified_above(problem, path, root, target - slack, rate, upper, &result->evaluations);
    result->lower = certified_below(problem, path, root, target + slack, rate, lower, &result->evaluations);
}

/* Whether the bounds are narrow; they are valid at any rate. Next to 0 the loss's own scale counts. */
static int is_narrow(const prepared *problem, const answer *result)
{
    double scale = larger(result->upper, smaller(problem->deviation, 1.0));
    if (problem->allocates)
        scale = 8.0 * larger(scale, 1.0);
    return isfinite(result->upper) && result->upper - result->lower <= NARROW * scale;
}

/* Errors of delta that take this part of a narrow width where d log delta / d log epsilon is -`gain`, within what is
 * worth planning. */
static double near_enough(double part, double gain)
{
    return larger(LOG_NEAR, smaller(log(part * NARROW * gain), LOG_ROUGH));
}

/* Errors planned for an answer: few rounds decay slowly, and the last digits would cost most of the contour. */
static double fine_for(const workspace *space, const prepared *problem, double gain)
{
    return problem->allocates ? LOG_ALLOCATED : !space->few ? LOG_FINE : space->brief ? LOG_NEAR : near_enough(0.1, gain);
}

int certified_epsilon(workspace *space, const prepared *problem, saddle *at, double target, answer *result)
{
    if (!(at->epsilon > 0.0))
        return epsilon_next_to_zero(space, problem, target, result);
    contour path = build(space, problem, at, fine_for(space, problem, at->tilt * at->epsilon));
    begin(space, ROOT);
    enclose_root(space, problem, &path, at->epsilon, target, result);
    return is_narrow(problem, result);
}

/* The root is at or next to epsilon = 0: decided with a contour planned there. */
int epsilon_next_to_zero(workspace *space, const prepared *problem, double target, answer *result)
{
    saddle at = saddle_for_epsilon(space, problem, 0.0);
    contour path = build(space, problem, &at, fine_for(space, problem, 0.0));
    begin(space, ROOT);
    double lower, upper;
    corrected(problem, &path, 0.0, &lower, &upper);
    if (upper <= target - slack_of(target)) {
        *result = (answer){.nodes = path.nodes, .samples = path.samples, .evaluations = 1};
        return 1;
    }
    enclose_root(space, problem, &path, 0.0, target, result);
    return is_narrow(problem, result);
}

/* Whether the tilted law is so much wider than the loss that it must be about something else: rare, large losses. */
int heavy_tailed(const prepared *problem, const saddle *at) { return at->deviation > HEAVY * problem->deviation; }

/* The composition prepared for an epsilon, and its contour there; at a tilt near the last one's, if there was one. */
static contour contour_near(workspace *space, int rounds, const round_law *whole, double log_delta, double epsilon,
                            double ahead, enum way way, double log_planned, prepared *problem, near_tilt *last)
{
    *problem = way == WHOLE ? prepare(space, rounds, whole, log_delta)
                            : prepare_near(space, rounds, whole, log_delta, epsilon, ahead,
                                           way == SPLIT ? SPLIT_EDGE : WIDE_EDGE);
    if (way != WHOLE && problem->discarded.log_p == -INFINITY) /* no large losses: as a whole, then */
        decline(space, RARE_LOSSES);
    if (way == SPLIT)
        return build_split(space, problem, epsilon, log_delta, log_planned);
    saddle at = saddle_nearby(space, problem, epsilon, *last);
    at.log_delta = log_delta;
    *last = (near_tilt){at.tilt, at.deviation};
    return build(space, problem, &at, log_planned);
}

/* Coarse contours, each for an epsilon of its own, until log delta is close to the target; then a fine one. */
answer search_epsilon(workspace *space, int rounds, const round_law *whole, double target, double start,
                      double ceiling, enum way way, int at_least, near_root *nearly)
{
    prepared problem = {.rounds = 0};
    near_tilt last = {.tilt = 0.0};
    double low = 0.0, high = ceiling, x = start > low && start < high ? start : 0.5 * (low + high);
    bookmark place = mark(space);
    if (nearly->epsilon > 0.0) {
        x = nearly->epsilon;
    } else if (way != WHOLE) {
        double alone = epsilon_of_large_losses(space, rounds, whole, target, smaller(ceiling, 1e5));
        if (alone > 1.001 * low && alone < 0.999 * high) /* and what many small losses have, if the start is about those */
            x = at_least ? larger(alone, smaller(start, high)) : alone;
        last.tilt = rate_of_large_losses(space, rounds, whole, x); /* as it is along saddles */
    }
    for (int i = 0; i < 40 && !(nearly->epsilon > 0.0); i++) {
        rewind_to(space, place);
        contour path = contour_near(space, rounds, whole, target, x, AHEAD, way, way == SPLIT ? LOG_GUIDE : LOG_COARSE,
                                    &problem, &last);
        double value, slope, lower, upper;
        uncorrected(&problem, &path, x, &value, &slope);
        if (way == SPLIT)
            lower = upper = value;
        else
            corrected(&problem, &path, x, &lower, &upper);
        int sound = isfinite(value) && slope < 0.0;
        double next = sound ? x + (target - value) / slope : 0.5 * (low + high);
        /* Next to delta = 1 a logarithm says little: then relative to the target. */
        double away = fabs(value - target), part = fabs(next - x) / x;
        if (way != WHOLE && i < PATIENCE) /* with large losses: how far away the step will end */
            away = part <= SHORT_STEP ? 1.5 * part * away : INFINITY;
        if (sound && away < CLOSE * smaller(1.0, -target)) {
            x = smaller(larger(next, low), high);
            /* Two steps of Newton's method from here are all that the fine contour needs. */
            if (way != WHOLE)
                *nearly = (near_root){.epsilon = x, .rate = -slope};
            break;
        }
        if (upper <= target)
            high = x;
        else if (lower >= target)
            low = x;
        else
            break;
        if (sound && next <= 0.0 && high < NEXT_TO_ZERO * problem.deviation)
            break;
        if (sound && next <= 0.0 && low == 0.0)
            x = smaller(0.5 * high, 0.5 * NEXT_TO_ZERO * problem.deviation);
        else
            x = next > low && next < high ? next : 0.5 * (low + high);
    }
    if (way == NEAR && space->brief && nearly->epsilon > 0.0) { /* where the closed forms themselves are wide, others follow */
        double least, most;
        bound_discarded(&problem.discarded, smaller(x, problem.discarded.farthest), &least, &most);
        if (exp(most - target) - exp(least - target) > WIDE_FORMS * NARROW * nearly->rate * x)
            decline(space, RARE_LOSSES);
    }
    answer best = {.lower = 0.0, .upper = INFINITY};
    for (int i = 0; i < 2; i++) {
        answer result = {.lower = 0.0};
        rewind_to(space, place);
        double fine = way != WHOLE ? near_enough(0.01, nearly->rate * x) : fine_for(space, &problem, 0.0);
        contour path = contour_near(space, rounds, whole, target, x, AHEAD, way, fine, &problem, &last);
        enclose_root(space, &problem, &path, x, target, &result);
        int narrow = is_narrow(&problem, &result);
        if (result.upper - result.lower < best.upper - best.lower)
            best = result;
        if (narrow || problem.allocates || !(result.root > 0.0)) /* with allocations the rest is rounding */
            break;
        double before = x; /* a contour planned too far away is planned anew, one at hand would be as wide again */
        x = result.root;
        if (fabs(x - before) < AT_THE_ROOT * before)
            break;
    }
    return best;
}

contour fine_contour(workspace *space, const prepared *problem, saddle *at)
{
    return build(space, problem, at, fine_for(space, problem, 0.0));
}

/* The same where losses are rare and large: a coarse contour says how small delta is, a fine one is planned for it. */
contour search_contour(workspace *space, int rounds, const round_law *whole, double epsilon, double ahead, enum way way,
                       prepared *problem)
{
    double alone = delta_of_large_losses(space, rounds, whole, epsilon), expected = alone > 1e-300 ? log(alone) : -20.0;
    near_tilt last = {.tilt = 0.0};
    expected = smaller(expected, -1.0);
    bookmark place = mark(space);
    for (int i = 0; i < 8; i++) {
        rewind_to(space, place);
        contour path = contour_near(space, rounds, whole, expected, epsilon, ahead, way,
                                    way == SPLIT ? LOG_GUIDE : LOG_COARSE, problem, &last);
        double value, slope, lower, upper;
        uncorrected(problem, &path, epsilon, &value, &slope);
        if (way == SPLIT)
            lower = upper = value;
        else
            corrected(problem, &path, epsilon, &lower, &upper);
        if (isfinite(value) && isfinite(lower) && upper - lower < CLOSE && fabs(value - expected) < 8.0) {
            rewind_to(space, place);
            return contour_near(space, rounds, whole, value, epsilon, ahead, way, LOG_NEAR, problem, &last);
        }
        expected = isfinite(value) ? value : expected - 15.0;
    }
    decline(space, TOO_WIDE);
    return (contour){.samples = 0};
}

/* A rigorous upper bound on epsilon, by Chernoff alone. */
double chernoff_ceiling(workspace *space, const prepared *problem, const scan *found, double target)
{
    double left = target;
    if (problem->log_dropped > -INFINITY) /* S-10, S-12, S-13 */
        left += log1p(-exp(problem->log_dropped - target)) - 1e-15 * fabs(target);
    double ceiling = larger(epsilon_ceiling(found, left), 0.0) + problem->shift; /* S-11 */
    if (isnan(ceiling))
        decline(space, ALIASES);
    return smaller(nextafter(ceiling, INFINITY), problem->largest_loss);
}

/* A closer one, by a coarse contour. */
double coarse_ceiling(workspace *space, const prepared *problem, saddle *at, double target)
{
    if (!(at->epsilon > 0.0))
        decline(space, TOO_WIDE);
    contour path = build(space, problem, at, LOG_COARSE);
    int evaluations = 0;
    double rate, lower, upper, root = find_root(space, problem, &path, at->epsilon, target, &rate, &evaluations);
    corrected(problem, &path, root, &lower, &upper);
    return certified_above(problem, &path, root, target - slack_of(target), rate, upper, &evaluations);
}
