/* From delta to epsilon: Newton on the samples, then outward until both sides are certified (engine.py; section 9). */
#include "arithmetic.h"
#include "spectral.h"

/* An answer is given if it is this narrow, relative to itself. */
#define NARROW 1e-9
/* Errors planned, relative to delta: those of an answer, and those of a bound that is only compared (1e-14, 1e-3). */
#define LOG_FINE -32.2361913
#define LOG_COARSE -6.9
/* Doublings of the distance from the root before giving up on certifying a side. */
#define OUTWARD 40

/* Certified (lower, upper) of log delta(epsilon) for the composition before trimming (section 5). */
static void corrected(const prepared *problem, const contour *path, double epsilon, double *lower, double *upper)
{
    if (epsilon >= problem->largest_loss) {
        *lower = *upper = -INFINITY;
        return;
    }
    contour_log_delta(path, epsilon, lower, upper);
    if (problem->log_dropped == -INFINITY)
        return;
    if (problem->direction == REMOVE) {
        *upper = smaller(log_add(*upper, problem->log_dropped) + 1e-15 * (1.0 + fabs(*upper)), 0.0);
        return;
    }
    /* -log(1 - eta) <= 2 eta; the mixture is at least (1 - eta) times the trimmed one, in every round. */
    double unused, shift = 2.0 * exp(problem->log_dropped);
    contour_log_delta(path, nextafter(epsilon - shift, -INFINITY), &unused, upper);
}

/* The root of the uncorrected sum, by Newton's method on the samples; `rate` is |d log delta / d epsilon| there. */
static double find_root(workspace *space, const contour *path, double start, double target, double *rate, int *evaluations)
{
    double root = start;
    for (int i = 0; i < 30; i++) {
        double value, slope;
        contour_slope(path, root, &value, &slope);
        ++*evaluations;
        if (!(isfinite(value) && isfinite(slope) && slope < 0.0))
            decline(space);
        double change = (target - value) / slope, farthest = path->period / 8.0;
        double next = larger(root + larger(smaller(change, farthest), -farthest), 0.0);
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

answer certified_epsilon(workspace *space, const prepared *problem, saddle *at, double target)
{
    if (!(at->epsilon > 0.0))
        decline(space);
    contour path = build(space, problem, at, LOG_FINE);
    answer result = {.nodes = path.nodes, .samples = path.samples};
    begin(space, ROOT);
    double rate, lower, upper, slack = slack_of(target);
    double root = find_root(space, &path, at->epsilon, target, &rate, &result.evaluations);
    corrected(problem, &path, root, &lower, &upper);
    result.upper = certified_above(problem, &path, root, target - slack, rate, upper, &result.evaluations);
    result.lower = certified_below(problem, &path, root, target + slack, rate, lower, &result.evaluations);
    if (!(isfinite(result.upper) && result.upper - result.lower <= NARROW * result.upper))
        decline(space);
    return result;
}

answer certified_log_delta(workspace *space, const prepared *problem, saddle *at, double epsilon)
{
    contour path = build(space, problem, at, LOG_FINE);
    answer result = {.nodes = path.nodes, .samples = path.samples, .evaluations = 1};
    corrected(problem, &path, epsilon, &result.lower, &result.upper);
    if (!(isfinite(result.lower) && result.upper - result.lower <= NARROW * larger(1.0, fabs(result.upper))))
        decline(space);
    return result;
}

/* A rigorous upper bound on epsilon, by Chernoff alone. */
double chernoff_ceiling(workspace *space, const prepared *problem, const scan *found, double target)
{
    double left = target, ceiling;
    if (problem->direction == REMOVE && problem->log_dropped > -INFINITY)
        left += log1p(-exp(problem->log_dropped - target));
    ceiling = larger(epsilon_ceiling(found, left), 0.0);
    if (problem->direction == ADD && problem->log_dropped > -INFINITY)
        ceiling += 2.0 * exp(problem->log_dropped);
    if (isnan(ceiling))
        decline(space);
    return smaller(nextafter(ceiling, INFINITY), problem->largest_loss);
}

/* A closer one, by a coarse contour. */
double coarse_ceiling(workspace *space, const prepared *problem, saddle *at, double target)
{
    if (!(at->epsilon > 0.0))
        decline(space);
    contour path = build(space, problem, at, LOG_COARSE);
    int evaluations = 0;
    double rate, lower, upper, root = find_root(space, &path, at->epsilon, target, &rate, &evaluations);
    corrected(problem, &path, root, &lower, &upper);
    return certified_above(problem, &path, root, target - slack_of(target), rate, upper, &evaluations);
}
