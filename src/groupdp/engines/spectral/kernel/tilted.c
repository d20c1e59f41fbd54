/* One round under its tilted law: density phi chi R^a / G(a), a = 1 + c (remove) or -c (add) (tilted.py). */
#include "arithmetic.h"
#include "spectral.h"

/* Below this log G, G - 1 is summed from terms of second order in the loss. */
#define SMALL_LOG_MOMENT 0.5
/* Largest relative error of a weight, or of the trapezoid rule, that is worked with. */
#define LARGEST_ERROR 5e-3
#define LOG_LARGEST_ERROR -5.298
#define NEGLIGIBLE -745.0

tilted_round tilt_round(workspace *space, const round_law *law, enum direction direction, double tilt,
                        double frequency, double log_tolerance)
{
    double a = direction == REMOVE ? 1.0 + tilt : -tilt;
    /* The identity E[R] = 1 enters with factors a and a - 1. */
    quadrature grid = plan(space, law, a, a, frequency, log_tolerance - log1p(fabs(a)), 1);
    const ratio_table *table = &grid.table;
    int nodes = table->nodes;
    double *weight = doubles(space, nodes), *loss = doubles(space, nodes), *doubt = doubles(space, nodes);
    double top = -INFINITY;
    for (int j = 0; j < nodes; j++) {
        weight[j] = grid.log_weight[j] + a * table->psi[j];
        top = larger(top, weight[j]);
    }
    for (int j = 0; j < nodes; j++)
        weight[j] = exp(larger(weight[j] - top, NEGLIGIBLE));
    double total = sum(weight, nodes), largest_doubt = 0.0, constant = fabs(top);
    for (int j = 0; j < nodes; j++)
        weight[j] /= total;
    tilted_round result = {.law = law, .exponent = a, .step = grid.step, .table = *table, .weight = weight};
    result.log_moment = top + log(total);

    /* Relative error of each weight: the exponent's rounding, the ratio's own error, the exponential. */
    double log_step = log(grid.step), rest = U * (4.0 * fabs(log_step) + 20.0);
    for (int j = 0; j < nodes; j++) {
        double half_square = 0.5 * table->u[j] * table->u[j];
        double size = half_square + fabs(a * table->psi[j]) + constant;
        if (law->thin.thinned) /* 8 |log chi| + 8 */
            size += 8.0 * fabs(grid.log_weight[j] + half_square - (log_step - HALF_LOG_2PI)) + 8.0;
        doubt[j] = fabs(a) * table->psi_error[j] + 6.0 * U * size + rest;
        largest_doubt = larger(largest_doubt, doubt[j]);
    }
    double mean_doubt = dot(weight, doubt, nodes);
    double log_trapezoid = log_error(&grid, a, result.log_moment, frequency);
    /* Errors are treated to first order from here on; the factors 1.01 cover the rest while they are this small. */
    if (!(largest_doubt <= LARGEST_ERROR && log_trapezoid <= LOG_LARGEST_ERROR))
        decline(space);
    result.log_moment_error = mean_doubt + SUMMED + 4.0 * U * fabs(result.log_moment) + exp(log_trapezoid);
    if (result.log_moment < SMALL_LOG_MOMENT) {
        double trapezoid = exp(log_trapezoid + result.log_moment) + (1.0 + tilt) * identity_error(&grid);
        double excess, error;
        excess_moment(&grid, direction, tilt, &excess, &error);
        if (law->thin.exact) {
            /* E[chi] = 1 - zeta and E[chi R] = 1 - eta, so E[chi] + (1 + c) E[chi x] = 1 + c zeta - (1 + c) eta. */
            double less = (1.0 + tilt) * law->thin.eta, more = tilt * law->thin.zeta;
            excess += more - less;
            trapezoid += (less + more) * (law->thin.relative_error + 8.0 * U);
        } else if (law->thin.thinned) { /* E[chi] and E[chi R] differ from 1 by at most eta each. */
            trapezoid += 2.0 * (1.0 + tilt) * exp(law->thin.log_discarded);
        }
        if (isfinite(excess) && isfinite(error)) {
            result.log_moment = log1p(excess);
            result.log_moment_error = (error + trapezoid) * 1.01 + 2.0 * ELEMENTARY * fabs(result.log_moment);
        }
    }
    for (int j = 0; j < nodes; j++)
        loss[j] = direction == REMOVE ? table->psi[j] : -table->psi[j];
    result.loss = loss;
    double centre = dot(weight, loss, nodes), first_order = 0.0, variance = 0.0;
    for (int j = 0; j < nodes; j++) {
        double distance = fabs(loss[j] - centre);
        double error = table->psi_error[j] + 4.0 * U * (fabs(loss[j]) + fabs(centre));
        first_order += weight[j] * (error + (doubt[j] + mean_doubt + SUMMED) * distance);
        variance += weight[j] * distance * distance;
    }
    result.centre = centre;
    result.variance = variance;
    result.log_quadrature_error = log_trapezoid + 1.0; /* of a ratio of two such moments */
    result.weight_error = 1.01 * (largest_doubt + mean_doubt + SUMMED + exp(log_trapezoid));
    result.first_order_error = first_order * 1.01;
    return result;
}
