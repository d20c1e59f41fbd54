/* How fast the characteristic function of one round's loss falls (decay.py; section 7).
 *
 *     |phi(s')| <= 1 - sum_r t_r W_r (1 - env(s W_r / 2))   for every s' >= s
 */
#include "arithmetic.h"
#include "spectral.h"

/* Everything here is inequality; this covers all rounding in the sums below. */
#define ROUNDING (1.0 - 1e-7)
#define LARGEST_NUMBER_OF_PEAKS 12

/* Cuts off the largest function below `height` that rises to its highest cell and falls after it, and appends its
 * superlevel sets, which are intervals, to the rectangles. */
static void peel(workspace *space, const double *width, double *height, int cells, int rectangles, decay *bound)
{
    int top = 0;
    for (int j = 1; j < cells; j++)
        if (height[j] > height[top])
            top = j;
    double *peak = doubles(space, cells), *widths = doubles(space, cells), *heights = doubles(space, cells);
    peak[top] = height[top];
    for (int j = top - 1; j >= 0; j--)
        peak[j] = smaller(peak[j + 1], height[j]);
    for (int j = top + 1; j < cells; j++)
        peak[j] = smaller(peak[j - 1], height[j]);
    /* From the top outward, always to the higher neighbour: the intervals in order of size. */
    int left = top, right = top, size = 0;
    double total = width[top], level = peak[top];
    while (level > 0.0) {
        double before = left > 0 ? peak[left - 1] : 0.0, after = right < cells - 1 ? peak[right + 1] : 0.0;
        double next = larger(before, after);
        widths[size] = total;
        heights[size++] = level - next;
        if (!(next > 0.0))
            break;
        total += before >= after ? width[--left] : width[++right];
        level = next;
    }
    for (int j = 0; j < cells; j++)
        height[j] -= peak[j];
    /* Fewer rectangles: neighbours in size share the smallest width among them. */
    int parts = size < rectangles ? size : rectangles;
    for (int r = 0; r < parts; r++) {
        int start = (int)((double)size * r / parts), end = (int)((double)size * (r + 1) / parts);
        double sum_of_heights = 0.0;
        for (int j = start; j < end; j++)
            sum_of_heights += heights[j];
        bound->width[bound->rectangles] = widths[start];
        bound->mass[bound->rectangles++] = widths[start] * sum_of_heights;
    }
}

/* Rectangles from a piecewise constant minorant of the density of the loss, one cell per node (section 7), compressed
 * to so many per peak; without `caution` from the density at the nodes itself, for an estimate. */
decay certify(workspace *space, const tilted_round *tilted, int rectangles, int caution)
{
    const ratio_table *table = &tilted->table;
    const round_law *law = tilted->law;
    int cells = table->nodes;
    double a = tilted->exponent, h = tilted->step, growth = 0.5 * (law->m[law->size - 1] - law->m[0]) * h;
    double *width = doubles(space, cells), *height = doubles(space, cells);
    double stretch = expm1(growth), shrink = 0.5 * (1.0 + exp(-growth));
    double doubt = slope_error(law, larger(fabs(table->u[0]), fabs(table->u[cells - 1])));
    if (!(doubt < 0.01))
        decline(space);
    for (int j = 0; j < cells; j++) {
        double slope = table->slope[j], u = table->u[j];
        width[j] = h * slope * (1.0 - doubt) * ROUNDING * shrink;
        /* A weight may be too large by its error: the heights must stay below the density. */
        height[j] = tilted->weight[j] / (h * slope) * (1.0 - 1.01 * doubt - tilted->weight_error);
        if (caution) {
            double drift = fabs(a * slope - u) + fabs(a) * slope * (stretch + 2.0 * doubt) + 0.5 * h;
            if (law->thin.thinned)
                drift += steepness(&law->thin, u + 0.5 * h);
            height[j] *= exp(-0.5 * h * drift * (1.0 + 1e-9) - growth);
        }
        if (!isfinite(height[j]))
            height[j] = 0.0;
    }
    decay bound = {.rounds = law->count};
    bound.width = doubles(space, LARGEST_NUMBER_OF_PEAKS * rectangles);
    bound.mass = doubles(space, LARGEST_NUMBER_OF_PEAKS * rectangles);
    for (int i = 0; i < LARGEST_NUMBER_OF_PEAKS; i++) {
        peel(space, width, height, cells, rectangles, &bound);
        if (dot(width, height, cells) < 0.02)
            break;
    }
    return bound;
}

/* 1 - env(x), rounded down by at most 1e-9 of itself. */
static double one_minus_envelope(double x)
{
    if (x < 0.1)
        return x * x * (1.0 / 6.0 - x * x / 120.0); /* 1 - sin(x) / x >= x^2 / 6 - x^4 / 120 */
    return x > 0.5 * PI ? 1.0 - 1.0 / x : 1.0 - sin(x) / x;
}

/* (number of rounds) * log of a bound on |phi(s)| for all s >= frequency. */
double log_decay(const decay *bound, double frequency)
{
    double captured = 0.0;
    for (int r = 0; r < bound->rectangles; r++)
        captured += bound->mass[r] * one_minus_envelope(0.5 * frequency * bound->width[r]);
    return bound->rounds * log1p(-smaller(captured * ROUNDING, 1.0 - 1e-15));
}
