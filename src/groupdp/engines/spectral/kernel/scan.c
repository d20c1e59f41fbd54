/* Where to cross the real axis: K(c) = sum_j T_j log G_j on a set of tilts (saddle.py). Only `upper` is used in proofs;
 * the rest chooses the contour, and a poor choice costs width, never validity. */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_TILTS 128
#define MOST_TRIES 60
/* The smallest tilt considered, as a share of the largest. */
#define SMALLEST_SHARE 3e-5
#define LARGEST_TILT 1e17
/* With more rounds than this, K is summed from second-order terms. */
#define MANY_ROUNDS 1e5
/* Terms of a moment this far below the largest are left out: 150 000 of them are below the slack of 1e-12. */
#define FAR_BELOW -45.0

/* Tilts around the saddle, as multiples of it, for the Chernoff bounds. */
static const double AROUND[] = {0.4, 0.6, 0.8, 1.15, 1.3, 1.5, 2.0, 3.0};

static double exponent_of(enum direction direction, double tilt) { return direction == REMOVE ? 1.0 + tilt : -tilt; }

/* log of c^c / (1 + c)^{1 + c}, written so that large c does not cancel: delta(eps) <= kappa(c) e^{K(c) - c eps}. */
static double log_kappa(double tilt) { return -tilt * log1p(1.0 / tilt) - log1p(tilt); }

/* log of the trapezoid sum of phi chi R^a, with mean and variance of Psi under the tilted law. */
static double moment(const quadrature *grid, double a, double *mean, double *variance)
{
    const double *psi = grid->table.psi, *log_weight = grid->log_weight;
    double top = -INFINITY, total = 0.0, first = 0.0, second = 0.0;
    for (int j = 0; j < grid->table.nodes; j++)
        top = larger(top, a * psi[j] + log_weight[j]);
    for (int j = 0; j < grid->table.nodes; j++) {
        double distance = a * psi[j] + log_weight[j] - top;
        if (distance < FAR_BELOW)
            continue;
        double term = exp(distance);
        total += term;
        first += term * psi[j];
        second += term * psi[j] * psi[j];
    }
    *mean = first / total;
    *variance = larger(second / total - *mean * *mean, 1e-30 * second / total);
    return top + log(total);
}

/* log G and its upper bound from second-order terms, where the loss is small. */
static void refine_small_loss(const quadrature *grid, enum direction direction, double tilt, double log_relative,
                              double *log_moment, double *log_upper)
{
    if (!(*log_moment < 0.5 && log_relative < -1.0))
        return;
    double excess, error;
    excess_moment(grid, direction, tilt, &excess, &error);
    if (!(isfinite(excess) && isfinite(error)))
        return;
    double trapezoid = exp(log_relative + *log_moment) + (1.0 + tilt) * identity_error(grid);
    if (grid->law->thin.thinned)
        trapezoid += 2.0 * (1.0 + tilt) * exp(grid->law->thin.log_discarded);
    *log_moment = log1p(excess);
    *log_upper = log1p(excess + 1.01 * (error + trapezoid)) * (1.0 + 1e-12);
}

/* K, K', K'' and the Chernoff bound at one tilt, put in its place among the others: its position. */
static int add_tilt(workspace *space, const scanner *by, scan *found, double tilt)
{
    enum direction direction = by->problem->direction;
    double a = exponent_of(direction, tilt), k = 0.0, mean = 0.0, variance = 0.0, upper = 0.0;
    for (int i = 0; i < by->problem->phases; i++) {
        const quadrature *grid = &by->grids[i];
        spend(space, 20.0 * (grid->table.nodes + grid->law->size));
        double count = grid->law->count, one_mean, one_variance, log_upper = INFINITY;
        double log_moment = moment(grid, a, &one_mean, &one_variance);
        double log_relative = log_error(grid, a, log_moment, 0.0);
        if (log_relative < -1.0) {
            /* Rounding: that of Psi times the exponent, of the weight (its normal tail included), and of the sum. */
            double slack = fabs(a) * by->psi_doubt[i] + 32.0 * U * by->weight_size[i];
            slack += (grid->table.nodes + 10.0) * U + 1e-12;
            log_upper = log_moment + slack - log1p(-exp(log_relative));
        }
        if (count > MANY_ROUNDS)
            refine_small_loss(grid, direction, tilt, log_relative, &log_moment, &log_upper);
        k += count * log_moment;
        mean += count * (direction == REMOVE ? one_mean : -one_mean);
        variance += count * one_variance;
        upper += count * log_upper;
    }
    upper += 1e-12 * fabs(upper);
    if (found->size == found->room)
        decline(space);
    int at = found->size++;
    for (; at > 0 && found->tilt[at - 1] > tilt; at--) {
        found->tilt[at] = found->tilt[at - 1];
        found->k[at] = found->k[at - 1];
        found->mean[at] = found->mean[at - 1];
        found->variance[at] = found->variance[at - 1];
        found->level[at] = found->level[at - 1];
    }
    found->tilt[at] = tilt;
    found->k[at] = k;
    found->mean[at] = mean;
    found->variance[at] = variance;
    found->level[at] = log_kappa(tilt) + upper;
    return at;
}

/* Quadratures good for every tilt up to `largest`. */
static saddle start(workspace *space, const prepared *problem, double largest)
{
    if (!(largest <= LARGEST_TILT))
        decline(space);
    saddle at = {.by = {.problem = problem, .largest = largest}};
    scanner *by = &at.by;
    double one = exponent_of(problem->direction, largest * SMALLEST_SHARE);
    double other = exponent_of(problem->direction, largest);
    by->grids = allocate(space, problem->phases * sizeof(quadrature));
    by->psi_doubt = doubles(space, problem->phases);
    by->weight_size = doubles(space, problem->phases);
    for (int i = 0; i < problem->phases; i++) {
        const round_law *law = &problem->rounds[i];
        /* Relative error of G well below 1 / T: it enters K multiplied by T. */
        double log_tolerance = -12.0 - log(law->count) - log1p(largest);
        by->grids[i] = plan(space, law, smaller(one, other), larger(one, other), 0.0, log_tolerance,
                            law->count > MANY_ROUNDS);
        const quadrature *grid = &by->grids[i];
        double doubt = 0.0, size = 0.0;
        for (int j = 0; j < grid->table.nodes; j++) {
            doubt = larger(doubt, grid->table.psi_error[j] + 4.0 * U * fabs(grid->table.psi[j]));
            size = larger(size, fabs(grid->log_weight[j]));
        }
        by->psi_doubt[i] = doubt;
        by->weight_size[i] = size;
    }
    scan *found = &at.found;
    double **columns[] = {&found->tilt, &found->k, &found->mean, &found->variance, &found->level};
    for (int i = 0; i < 5; i++)
        *columns[i] = doubles(space, MOST_TILTS);
    found->room = MOST_TILTS;
    return at;
}

/* More tilts, as multiples of the saddle's. */
void extend(workspace *space, saddle *at, const double *multiples, int count)
{
    for (int i = 0; i < count; i++)
        if (at->tilt * multiples[i] <= at->by.largest)
            add_tilt(space, &at->by, &at->found, at->tilt * multiples[i]);
}

/* The saddle-point approximation with the saddle at tilt number i: its epsilon, log delta and curvature. */
typedef struct {
    double epsilon, log_delta, curvature;
} approximation;

static approximation approximate(const scan *found, int i)
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

/* Positive below the tilt that is asked for, negative above; `close` if it is near enough. */
static double excess_at(const scan *found, int i, wanted what, int *close)
{
    approximation there = approximate(found, i);
    double excess = what.by_epsilon ? what.value - there.epsilon : there.log_delta - what.value;
    *close = what.by_epsilon ? excess * excess < 0.1 * there.curvature : fabs(excess) < 0.3;
    return excess;
}

/* The tilt asked for, up to `largest`; 0 if the scan would have to reach further. Along increasing tilts epsilon rises
 * and log delta falls, so it is bracketed and found by the secant with bisection, in log c. */
static int find_tilt(workspace *space, saddle *at, wanted what, double expected)
{
    scan *found = &at->found;
    double low = at->by.largest * SMALLEST_SHARE, high = at->by.largest;
    double tilt = smaller(larger(expected, 2.0 * low), 0.5 * high), low_excess = 0.0, high_excess = 0.0;
    for (int tries = 0;; tries++) {
        int i = add_tilt(space, &at->by, found, tilt), close;
        double excess = excess_at(found, i, what, &close);
        if (isnan(excess) || tries == MOST_TRIES)
            decline(space);
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
        if (low_excess > 0.0 && high_excess < 0.0 && tries % 3 != 2)
            share = smaller(larger(low_excess / (low_excess - high_excess), 0.05), 0.95);
        if (low_excess > 0.0 && high_excess == 0.0)
            tilt = smaller(3.0 * low, at->by.largest); /* no tilt above it yet: reach out */
        else if (low_excess == 0.0)
            tilt = larger(high / 3.0, at->by.largest * SMALLEST_SHARE);
        else
            tilt = low * pow(high / low, share);
    }
}

static saddle find_saddle(workspace *space, const prepared *problem, wanted what, double largest, double expected)
{
    for (;; largest *= 4.0) {
        saddle at = start(space, problem, largest);
        if (find_tilt(space, &at, what, expected)) {
            extend(space, &at, AROUND, sizeof AROUND / sizeof AROUND[0]);
            return at;
        }
    }
}

/* The tilt whose saddle-point approximation gives e^log_delta. */
saddle saddle_for_delta(workspace *space, const prepared *problem, double log_delta)
{
    double root = sqrt(2.0 * larger(-log_delta, 0.0));
    wanted what = {.value = log_delta};
    return find_saddle(space, problem, what, (1.5 * root + 18.0) / problem->deviation, root / problem->deviation);
}

/* The tilt that minimises K(c) - c epsilon - log c - log(1 + c): the approximation's epsilon is its derivative. */
saddle saddle_for_epsilon(workspace *space, const prepared *problem, double epsilon)
{
    double deviation = problem->deviation;
    double distance = larger(epsilon - problem->mean, 0.0) / (deviation * deviation);
    wanted what = {.by_epsilon = 1, .value = epsilon};
    return find_saddle(space, problem, what, 2.0 * distance + 24.0 / deviation, distance + 1.0 / deviation);
}

/* Chernoff: delta(epsilon) <= e^log_delta at (and beyond) this epsilon, rigorously. */
double epsilon_ceiling(const scan *found, double log_delta)
{
    double best = INFINITY;
    for (int i = 0; i < found->size; i++)
        best = smaller(best, (found->level[i] - log_delta + 1e-9) / found->tilt[i]);
    return best + 1e-12 * fabs(best);
}

/* Mean and standard deviation of the composed loss under P, roughly. */
void loss_scale(workspace *space, prepared *problem)
{
    double a = exponent_of(problem->direction, 0.0), mean = 0.0, variance = 0.0;
    for (int i = 0; i < problem->phases; i++) {
        const round_law *law = &problem->rounds[i];
        quadrature grid = plan(space, law, a, a, 0.0, -12.0, 0);
        double total = 0.0, first = 0.0, second = 0.0;
        for (int j = 0; j < grid.table.nodes; j++) {
            double weight = exp(grid.log_weight[j] + a * grid.table.psi[j]);
            total += weight;
            first += weight * grid.table.psi[j];
        }
        first /= total;
        for (int j = 0; j < grid.table.nodes; j++) {
            double distance = grid.table.psi[j] - first;
            second += exp(grid.log_weight[j] + a * grid.table.psi[j]) * distance * distance;
        }
        mean += law->count * (problem->direction == REMOVE ? first : -first);
        variance += law->count * second / total;
    }
    problem->mean = mean;
    problem->deviation = sqrt(variance);
    if (!(problem->deviation > 1e-140))
        decline(space);
}
