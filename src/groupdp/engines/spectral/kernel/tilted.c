/* One round under its tilted law: density w_b phi chi A^{1+c} B^{-c} / G(c) on branch b of its coin. */
#include "arithmetic.h"
#include "spectral.h"

/* Below this log G, G - 1 is summed from terms of second order in the loss. */
#define SMALL_LOG_MOMENT 0.5
/* Largest relative error of a weight, or of the trapezoid rule, that is worked with. */
#define LARGEST_ERROR 5e-3
#define LOG_LARGEST_ERROR -5.298
#define NEGLIGIBLE -745.0
/* A weight below this share (e^-600) whose exponent is right to so much is below e^-500, which is charged (S-70). */
#define LOST_WEIGHT 2.6e-261
#define MUCH 100.0
#define LOST 1e-200
/* Relative error of mu^2: mu is a sum of two shifts, each right to 4 U. */
#define SQUARE (12.0 * U)

/* What one branch contributes: log G_b with its error, and, where that is better, G_b - 1 with its error. */
typedef struct {
    double log_moment, log_moment_error, log_trapezoid;
    double excess, excess_error; /* not finite where it is of no use */
    double mean_doubt, largest_doubt;
    double *doubt;
    double log_samples; /* the relative error of the trapezoid rule at frequencies above 0 */
    line_table line;    /* where they have nodes off the axis */
} branch_moment;

/* The quadrature of one branch, its weights (which sum to 1 for now) and its moment (S-17). */
static branch_moment tilt_branch(workspace *space, const branch *of, double c, double frequency, double log_tolerance,
                                 tilted_branch *result)
{
    /* The identities E[A] = E[B] = 1 enter with factors 1 + c and c, where G is next to 1. */
    double enlarged = of->thin.has_lower ? 0.0 : log1p(1.0 + c);
    result->grid = plan(space, of, c, c, frequency, log_tolerance - enlarged, !of->thin.has_lower);
    const quadrature *grid = &result->grid;
    const branch_table *table = &grid->table;
    int nodes = table->nodes;
    double *weight = doubles(space, nodes), top = -INFINITY;
    branch_moment found = {.excess = INFINITY, .excess_error = INFINITY, .doubt = doubles(space, nodes)};
    for (int j = 0; j < nodes; j++) {
        weight[j] = grid->log_weight[j] + (table->right.log[j] + c * table->psi[j]);
        top = larger(top, weight[j]);
    }
    for (int j = 0; j < nodes; j++)
        weight[j] = exp(larger(weight[j] - top, NEGLIGIBLE));
    double total = sum(weight, nodes), constant = fabs(top);
    for (int j = 0; j < nodes; j++)
        weight[j] /= total;
    result->weight = weight;
    found.log_moment = top + log(total);
    /* Relative error of each weight: the exponent's rounding, the sides' own errors, the exponential. */
    double log_step = log(grid->step), rest = U * (4.0 * fabs(log_step) + 20.0);
    for (int j = 0; j < nodes; j++) {
        double half_square = 0.5 * table->u[j] * table->u[j];
        double size = half_square + fabs(table->right.log[j]) + fabs(c * table->psi[j]) + constant;
        if (of->thin.thinned) /* 8 |log chi| + 8 */
            size += 8.0 * fabs(grid->log_weight[j] + half_square - (log_step - HALF_LOG_2PI)) + 8.0;
        found.doubt[j] = table->right.log_error[j] + c * table->psi_error[j] + 6.0 * U * size + rest;
        if (!(weight[j] < LOST_WEIGHT && found.doubt[j] < MUCH)) /* S-70 */
            found.largest_doubt = larger(found.largest_doubt, found.doubt[j]);
    }
    found.mean_doubt = dot(weight, found.doubt, nodes) + LOST;
    found.log_trapezoid = log_error(grid, c, found.log_moment, grid->line > 0.0 ? 0.0 : frequency);
    found.log_samples = grid->line > 0.0 ? log_line_error(grid, c, found.log_moment) : found.log_trapezoid;
    /* Errors are treated to first order from here on; the factors 1.01 cover the rest while they are this small. */
    if (!(found.largest_doubt <= LARGEST_ERROR && found.log_trapezoid <= LOG_LARGEST_ERROR &&
          found.log_samples <= LOG_LARGEST_ERROR))
        decline(space, ROUNDED);
    if (grid->line > 0.0)
        found.line = tabulate_line(space, grid, c, found.log_moment);
    found.log_moment_error = found.mean_doubt + SUMMED + 4.0 * U * fabs(found.log_moment) + exp(found.log_trapezoid);
    if (!(found.log_moment < SMALL_LOG_MOMENT) || of->thin.has_lower) /* G is next to 0, not to 1 */
        return found;
    double trapezoid = exp(found.log_trapezoid + found.log_moment) + identity_error(grid, c);
    excess_moment(grid, c, &found.excess, &found.excess_error);
    if (of->thin.exact) {
        /* E[chi A] = 1 - eta and E[chi B] = 1 - zeta, so E[chi A] + c E[chi (A - B)] = 1 + c zeta - (1 + c) eta. */
        double less = (1.0 + c) * exp(of->thin.log_eta), more = c * exp(of->thin.log_zeta);
        double size = fabs(of->thin.log_eta) + fabs(of->thin.log_zeta);
        found.excess += more - less;
        trapezoid += (less + more) * (of->thin.relative_error + U * (16.0 + size)) + (1.0 + c) * 1e-300;
        trapezoid += of->thin.is_cut ? (1.0 + 2.0 * c) * exp(log_keep(&of->thin, grid->end) + 1e-9) : 0.0; /* S-38 */
    } else if (of->thin.thinned || of->thin.is_cut) { /* E[chi A] and E[chi B] differ from 1 by at most eta each. */
        trapezoid += 2.0 * (1.0 + c) * exp(of->thin.log_discarded);
    }
    found.excess_error = (found.excess_error + trapezoid) * 1.01;
    return found;
}

/* log G of a coin, with its error, from those of its branches (S-18). */
static void join_moments(const round_law *law, const branch_moment *found, double c, double *log_moment,
                         double *log_moment_error)
{
    double half = 0.5 * c * (c + 1.0), excess = -law->lost, error = 4.0 * U * law->lost, top = -INFINITY;
    for (int b = 0; b < law->branches; b++) {
        double w = law->branch[b].weight, weight_error = U * (16.0 + 8.0 * fabs(law->branch[b].log_weight));
        excess += w * found[b].excess;
        error += w * (found[b].excess_error + fabs(found[b].excess) * weight_error);
        top = larger(top, law->branch[b].log_weight + found[b].log_moment);
    }
    for (int b = 0; b < law->gaussians; b++)
        top = larger(top, law->gaussian_log_weight[b] + half * law->mu[b] * law->mu[b]);
    double total = 0.0, doubt = 0.0, size = 0.0;
    for (int b = 0; b < law->branches; b++) {
        double log_weight = law->branch[b].log_weight, term = exp(log_weight + found[b].log_moment - top);
        total += term;
        doubt += term * (found[b].log_moment_error + U * (16.0 + 8.0 * (fabs(log_weight) + fabs(found[b].log_moment))));
    }
    for (int b = 0; b < law->gaussians; b++) {
        double log_weight = law->gaussian_log_weight[b], v = half * law->mu[b] * law->mu[b];
        double w = exp(log_weight), term = exp(log_weight + v - top), beyond = expm1(v);
        total += term;
        doubt += term * U * (32.0 + 8.0 * fabs(log_weight) + 24.0 * v);
        excess += w * beyond;
        /* (e^v - 1) to (SQUARE + 4 U) v e^v and 8 U of itself. */
        error += w * (U * (24.0 + 8.0 * fabs(log_weight)) * beyond + 24.0 * U * v * (beyond + 1.0));
        size += w * beyond;
    }
    int parts = law->branches + law->gaussians;
    *log_moment = top + log(total);
    *log_moment_error = doubt / total * 1.01 + U * (parts + 32.0 + 4.0 * fabs(top) + 4.0 * fabs(*log_moment));
    if (law->gaussians == 1 && law->branches == 0 && law->lost == 0.0) { /* K itself is a polynomial */
        *log_moment = half * law->mu[0] * law->mu[0];
        *log_moment_error = 24.0 * U * *log_moment;
    } else if (*log_moment < SMALL_LOG_MOMENT && isfinite(excess) && isfinite(error) && excess > -0.5) {
        error += U * (parts + 4.0) * (fabs(excess) + size + law->lost);
        *log_moment = log1p(excess);
        *log_moment_error = 1.01 * error / (1.0 + smaller(excess, 0.0)) + 2.0 * ELEMENTARY * fabs(*log_moment);
    }
}

/* What `add_branch` does, for nodes off the axis (S-52): weights and losses are complex, errors those of the moduli. */
static void add_line_of(tilted_round *result, const branch_moment *found, double share, double share_error, int start,
                        int nodes)
{
    const line_table *line = &found->line;
    double scale = 1.01 * (found->log_moment_error + share_error);
    for (int j = 0; j < nodes; j++) {
        double x = line->loss[j], y = line->loss_imaginary[j], distance = hypot(x - result->centre, y);
        double modulus = hypot(line->weight[j], line->weight_imaginary[j]);
        double error = line->loss_error[j] + 4.0 * U * (hypot(x, y) + fabs(result->centre));
        double doubt = line->weight_error[j] + (scale + 4.0 * U) * modulus;
        result->weight[start + j] = line->weight[j] * share;
        result->weight_imaginary[start + j] = line->weight_imaginary[j] * share;
        result->loss[start + j] = x;
        result->loss_imaginary[start + j] = y;
        result->first_order_error += share * ((modulus + doubt) * error + doubt * distance);
        result->variance += share * modulus * distance * distance;
    }
}

/* Tilted means and errors over the nodes of one branch, its weights scaled to its share of the round. */
static void add_branch(tilted_round *result, tilted_branch *part, const branch_moment *found, double share,
                       double share_error, int start)
{
    const branch_table *table = &part->grid.table;
    int off_axis = part->grid.line > 0.0;
    if (off_axis) {
        for (int j = 0; j < table->nodes; j++)
            part->weight[j] *= share;
        add_line_of(result, found, share, share_error, start, table->nodes);
    }
    for (int j = 0; j < table->nodes && !off_axis; j++) {
        double weight = part->weight[j] * share;
        result->weight[start + j] = weight;
        result->loss[start + j] = table->psi[j];
        double error = table->psi_error[j] + 4.0 * U * (fabs(table->psi[j]) + fabs(result->centre));
        double distance = fabs(table->psi[j] - result->centre);
        double doubt = found->doubt[j] + found->mean_doubt + SUMMED + share_error;
        result->first_order_error += weight * (error + doubt * distance) + LOST * (error + distance);
        result->variance += weight * distance * distance;
    }
    if (!off_axis)
        part->weight = result->weight + start;
    part->log_moment = found->log_moment;
    part->weight_error = 1.01 * (found->largest_doubt + found->mean_doubt + SUMMED + exp(found->log_trapezoid));
    part->weight_error += 1.01 * share_error;
    part->share = share_error > 0.0 ? share * (1.0 + 1.01 * share_error) : 1.0;
    result->constant_error += share * exp(found->log_samples + 1.0); /* of a ratio of two such moments */
}

tilted_round tilt_round(workspace *space, const round_law *law, double c, double frequency, double log_tolerance)
{
    if (law->allocated != NULL) /* all rounds together decay to the tolerance at the frequency */
        return tilt_allocations(space, law, c, frequency, (10.0 - 2.0 * log_tolerance) / (frequency * frequency),
                                log_tolerance);
    tilted_round result = {.law = law, .tilt = c, .branches = law->branches};
    result.branch = allocate(space, (law->branches + 1) * sizeof(tilted_branch));
    branch_moment *found = allocate(space, (law->branches + 1) * sizeof(branch_moment));
    int coin = law->branches + law->gaussians > 1 || law->lost > 0.0;
    for (int b = 0; b < law->branches; b++) {
        found[b] = tilt_branch(space, &law->branch[b], c, frequency, log_tolerance, &result.branch[b]);
        result.nodes += result.branch[b].grid.table.nodes;
    }
    join_moments(law, found, c, &result.log_moment, &result.log_moment_error);
    if (!(result.log_moment_error <= 2.0 * LARGEST_ERROR))
        decline(space, ROUNDED);
    result.omega = doubles(space, law->gaussians + 1);
    result.gaussian_error = doubles(space, law->gaussians + 1);
    double half = 0.5 * c * (c + 1.0), at_mean = c + 0.5, *share = doubles(space, law->branches + 1);
    for (int b = 0; b < law->branches; b++) {
        share[b] = coin ? exp(law->branch[b].log_weight + found[b].log_moment - result.log_moment) : 1.0;
        result.centre += share[b] * dot(result.branch[b].weight, result.branch[b].grid.table.psi,
                                        result.branch[b].grid.table.nodes);
    }
    for (int b = 0; b < law->gaussians; b++) {
        double square = law->mu[b] * law->mu[b], log_weight = law->gaussian_log_weight[b];
        result.omega[b] = coin ? exp(log_weight + half * square - result.log_moment) : 1.0;
        result.gaussian_error[b] =
            coin ? result.log_moment_error + U * (40.0 + 8.0 * fabs(log_weight) + 24.0 * half * square +
                                                  4.0 * fabs(result.log_moment))
                 : 0.0;
        if (!(result.gaussian_error[b] <= 2.0 * LARGEST_ERROR))
            decline(space, ROUNDED);
        result.centre += result.omega[b] * at_mean * square;
    }
    result.weight = doubles(space, result.nodes);
    result.loss = doubles(space, result.nodes);
    for (int b = 0; b < law->branches; b++)
        if (result.branch[b].grid.line > 0.0 && result.weight_imaginary == NULL) {
            result.weight_imaginary = doubles(space, result.nodes);
            result.loss_imaginary = doubles(space, result.nodes);
            for (int j = 0; j < result.nodes; j++)
                result.weight_imaginary[j] = result.loss_imaginary[j] = 0.0;
        }
    for (int b = 0, start = 0; b < law->branches; start += result.branch[b++].grid.table.nodes) {
        double error = coin ? found[b].log_moment_error + result.log_moment_error +
                                  U * (32.0 + 8.0 * fabs(law->branch[b].log_weight) + 4.0 * fabs(found[b].log_moment) +
                                       4.0 * fabs(result.log_moment))
                            : 0.0;
        add_branch(&result, &result.branch[b], &found[b], share[b], error, start);
    }
    for (int b = 0; b < law->gaussians; b++) {
        double omega = result.omega[b], square = law->mu[b] * law->mu[b];
        double mean = at_mean * square, distance = fabs(mean - result.centre);
        result.first_order_error += omega * (result.gaussian_error[b] * distance);
        result.first_order_error += omega * 4.0 * U * (8.0 * mean + fabs(result.centre));
        result.second_order_error += omega * (result.gaussian_error[b] + 2.0 * SQUARE) * 0.5 * square;
        result.variance += omega * (square + distance * distance);
    }
    result.first_order_error *= 1.01;
    result.second_order_error *= 1.01;
    return result;
}
