/* From delta to epsilon: Newton on the samples, then outward until both sides are certified (engine.py; section 9). */
#include "arithmetic.h"
#include "spectral.h"

/* An answer is given if it is this narrow, relative to itself. */
#define NARROW 1e-9
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

answer certified_epsilon(workspace *space, const prepared *problem, saddle *at, double target)
{
    if (!(at->epsilon > 0.0))
        decline(space);
    contour path = build(space, problem, at);
    answer result = {.nodes = path.nodes, .samples = path.samples};
    /* The target itself is a rounded logarithm: each side is certified against the worse of its neighbours. */
    double slack = 4.0 * U * fabs(target), root = at->epsilon, rate = INFINITY, lower_log, upper_log;
    for (int i = 0; i < 30; i++) {
        double value, slope;
        contour_slope(&path, root, &value, &slope);
        result.evaluations++;
        if (!(isfinite(value) && isfinite(slope) && slope < 0.0))
            decline(space);
        double change = (target - value) / slope;
        rate = -slope;
        double next = larger(root + larger(smaller(change, path.period / 8.0), -path.period / 8.0), 0.0);
        /* The last step of Newton's method squares the distance: what is left is beyond doubles. */
        int settled = fabs(next - root) <= 1e-9 * next;
        root = next;
        if (settled)
            break;
    }
    corrected(problem, &path, root, &lower_log, &upper_log);
    double floor_of_distance = 4e-16 * root;
    double above = larger((upper_log - target + slack) / rate, 0.0) * 1.05 + floor_of_distance;
    double below = larger((target + slack - lower_log) / rate, 0.0) * 1.05 + floor_of_distance;
    result.upper = INFINITY;
    for (int i = 0; i < OUTWARD && result.upper == INFINITY; i++) {
        double candidate = smaller(root + above, problem->largest_loss);
        result.evaluations++;
        corrected(problem, &path, candidate, &lower_log, &upper_log);
        if (upper_log <= target - slack)
            result.upper = candidate;
        above = larger(2.0 * above, 1e-300);
    }
    for (int i = 0; i < OUTWARD; i++) {
        double candidate = root - below;
        if (!(candidate > 0.0))
            break;
        result.evaluations++;
        corrected(problem, &path, candidate, &lower_log, &upper_log);
        if (lower_log >= target + slack) {
            result.lower = candidate;
            break;
        }
        below = larger(2.0 * below, 1e-300);
    }
    if (!(isfinite(result.upper) && result.upper - result.lower <= NARROW * result.upper))
        decline(space);
    return result;
}

answer certified_log_delta(workspace *space, const prepared *problem, saddle *at, double epsilon)
{
    contour path = build(space, problem, at);
    answer result = {.nodes = path.nodes, .samples = path.samples, .evaluations = 1};
    corrected(problem, &path, epsilon, &result.lower, &result.upper);
    if (!(isfinite(result.lower) && result.upper - result.lower <= NARROW * larger(1.0, fabs(result.upper))))
        decline(space);
    return result;
}

/* A rigorous upper bound on epsilon, by Chernoff alone. */
double certified_ceiling(const prepared *problem, const scan *found, double log_delta)
{
    if (problem->direction == REMOVE && problem->log_dropped > -INFINITY)
        log_delta += log1p(-exp(problem->log_dropped - log_delta));
    double ceiling = larger(epsilon_ceiling(found, log_delta), 0.0);
    if (problem->direction == ADD && problem->log_dropped > -INFINITY)
        ceiling += 2.0 * exp(problem->log_dropped);
    return smaller(nextafter(ceiling, INFINITY), problem->largest_loss);
}
