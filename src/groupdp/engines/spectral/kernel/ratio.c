/* The likelihood ratio on a set of nodes, with its rounding error (ratio.py; section 6). */
#include "arithmetic.h"
#include "spectral.h"

#define SAFE_EXPONENT 600.0
#define SAFE_LOG_PROBABILITY -650.0
/* Below this largest shift, R - 1 is summed with expm1. */
#define SMALL_SHIFT 0.5
/* While no exponent exceeds this, |R - 1| < 1/2 and log R comes from R - 1 alone. */
#define SMALL_EXPONENT 0.4

/* Shifts 0, g, 2g, ... (to 4 U, like every shift), and no term's logarithm beyond what a product of doubles can hold:
 * powers of e^{g u} then take the place of the exponentials. */
static int evenly_spaced(const round_law *law, double reach)
{
    if (law->size < 3 || law->m[0] != 0.0)
        return 0;
    double g = law->m[1];
    for (int i = 0; i < law->size; i++) {
        double m = law->m[i], log_p = law->log_p[i];
        if (fabs(m - i * g) > 4.0 * U * m || log_p < SAFE_LOG_PROBABILITY || log_p - 0.5 * m * m < SAFE_LOG_PROBABILITY)
            return 0;
    }
    return g * reach < SAFE_EXPONENT;
}

static void directly(workspace *space, const round_law *law, ratio_table *table, double reach)
{
    int absent_too = law->m[0] == 0.0, count = law->size - absent_too;
    const double *m = law->m + absent_too, *p = law->p + absent_too;
    double absent = absent_too ? law->p[0] : 0.0, present = 0.0, first_plain = 0.0, second_plain = 0.0;
    for (int i = 0; i < count; i++) {
        present += p[i];
        first_plain += p[i] * m[i];
        second_plain += p[i] * m[i] * m[i];
    }
    double largest = law->m[law->size - 1];
    int by_increments = largest < SMALL_SHIFT, tiny = largest * (reach + largest) < SMALL_EXPONENT;
    /* c_i = p_i e^{-m_i^2 / 2}, right to 12 U + 10 U m_i^2 / 2; e^{g u}, right to 8 U + 5 U g |u|, enters i times, with
     * i roundings: the i-th term carries 9 i U beyond what a term is charged below. */
    double g = law->m[law->size > 1], *coefficient = NULL;
    if (!by_increments && evenly_spaced(law, reach)) {
        coefficient = doubles(space, count);
        for (int i = 0; i < count; i++)
            coefficient[i] = p[i] * exp(-0.5 * m[i] * m[i]);
    }
    for (int j = 0; j < table->nodes; j++) {
        double u = table->u[j], magnitude = fabs(u);
        double total = 0.0, first = 0.0, second = 0.0, excess = 0.0, powers = 0.0;
        if (coefficient != NULL) {
            double base = exp(g * u), power = 1.0;
            for (int i = 0; i < count; i++) {
                power *= base;
                double weighted = coefficient[i] * power;
                total += weighted;
                first += weighted * m[i];
                second += weighted * m[i] * m[i];
            }
            powers = 9.0 * first / g;
        }
        for (int i = 0; coefficient == NULL && i < count; i++) {
            double exponent = u * m[i] - 0.5 * m[i] * m[i], ratio;
            if (by_increments) {
                double increment = expm1(exponent);
                excess += increment * p[i];
                /* far below e^e = 1, 1 + expm1(e) keeps no digit of e^e */
                ratio = tiny ? increment + 1.0 : exp(exponent);
            } else {
                ratio = exp(exponent);
            }
            double weighted = p[i] * ratio;
            total += weighted;
            first += weighted * m[i];
            second += weighted * m[i] * m[i];
        }
        /* Sum of p_i e^{e_i} (m_i |u| + m_i^2 / 2): an exponent is wrong by at most 10 U of its two parts. */
        double exponents = first * magnitude + 0.5 * second, excess_error;
        if (by_increments) {
            /* |expm1(e)| <= |e| max(1, e^e): each term's relative error is charged to the exponents' sum. */
            double plain = first_plain * magnitude + 0.5 * second_plain;
            excess_error = U * ((count + 14.0) * (plain + exponents) + 10.0 * exponents);
        } else {
            excess = total - present;
            excess_error = U * ((count + 14.0) * (total + present) + 10.0 * exponents + powers);
        }
        double ratio = total + absent, ratio_error = excess_error, psi;
        if (fabs(excess) < 0.5) {
            psi = log1p(excess);
        } else {
            psi = log(ratio);
            ratio_error = U * ((count + 16.0) * ratio + 10.0 * exponents + powers);
        }
        table->psi[j] = psi;
        table->slope[j] = first / ratio;
        table->excess[j] = excess;
        table->psi_error[j] = ratio_error / larger(ratio - ratio_error, 0.5 * ratio) + ELEMENTARY * fabs(psi);
        table->excess_error[j] = larger(excess_error, ratio_error);
    }
}

/* What a node's entries are, from the largest term's logarithm and sums over the terms relative to it. */
static void enter(ratio_table *table, int j, double top, double total, double first, double error)
{
    double psi = top + log(total), excess = expm1(psi);
    error = U * (error + 3.0 * fabs(top)) + ELEMENTARY * fabs(psi);
    table->psi[j] = psi;
    table->slope[j] = first / total;
    table->psi_error[j] = error;
    table->excess[j] = excess;
    /* R (e^error - 1), e^error - 1 <= error (1 + error) for an error below 1; 1 + excess is R to 8 U |R - 1|, which is
     * below 16 U + U error R, as an error is at least 20 U. */
    table->excess_error[j] = (excess + 1.0 + 16.0 * U) * error * (1.0 + 2.0 * error) + ELEMENTARY * fabs(excess);
    if (!(error < 1.0))
        table->excess_error[j] = INFINITY;
}

static void logarithmically(const round_law *law, ratio_table *table)
{
    int count = law->size;
    /* The sum, its logarithm (at most log n, to 8 U) and the distances to the top (at most log n on average). */
    double counting = count + 20.0 + 9.0 * log(count);
    for (int j = 0; j < table->nodes; j++) {
        double u = table->u[j], top = -INFINITY;
        for (int i = 0; i < count; i++)
            top = larger(top, law->m[i] * u + (law->log_p[i] - 0.5 * law->m[i] * law->m[i]));
        double total = 0.0, first = 0.0, second = 0.0, logarithms = 0.0;
        for (int i = 0; i < count; i++) {
            double m = law->m[i], distance = m * u + (law->log_p[i] - 0.5 * m * m) - top;
            if (distance < -708.0)
                continue; /* below 1e-307 of the sum: far below the rounding of it that is charged */
            double term = exp(distance);
            total += term;
            first += term * m;
            second += term * m * m;
            logarithms += term * fabs(law->log_p[i]);
        }
        double exponents = (first * fabs(u) + 0.5 * second + logarithms) / total;
        enter(table, j, top, total, first, counting + 12.0 * exponents);
    }
}

/* The ratios r_i of neighbouring terms at u = 0, t_i = r_i e^{g u} t_{i-1}; 0 if they do not fall, or overflow. */
static int neighbour_ratios(const round_law *law, double *up, double *down)
{
    double g = law->m[1];
    for (int i = 1; i < law->size; i++) {
        double logarithm = law->log_p[i] - law->log_p[i - 1] - g * g * (i - 0.5);
        if (!(fabs(logarithm) < SAFE_EXPONENT))
            return 0;
        up[i] = law->p[i] / law->p[i - 1] * exp(-g * g * (i - 0.5));
        down[i] = 1.0 / up[i];
        if (i > 1 && !(up[i] <= up[i - 1]))
            return 0;
    }
    return 1;
}

/* Evenly spaced shifts and falling ratios: from the largest term outward, by products.
 *
 * A step's factor: the ratio is right to 15 U + 10 U g^2 (i - 1/2), e^{g u} or its inverse to 9 U + 5 U g |u|, and
 * there are two roundings. d steps from the top to m_i telescope to
 * 26 d U + 10 U |m_i^2 - m_top^2| / 2 + 5 U |m_i - m_top| |u| where the shifts are multiples of g; as they are to 5 U
 * only, and the true ones to 4 U, a square is off by 20 U of itself.
 */
static void by_products(const round_law *law, ratio_table *table, const double *up, const double *down)
{
    int count = law->size, top_index = 0;
    const double *m = law->m, *log_p = law->log_p;
    double g = m[1], counting = count + 20.0 + 9.0 * log(count);
    for (int j = 0; j < table->nodes; j++) {
        double u = table->u[j], base = exp(g * u), inverse = 1.0 / base;
        while (top_index < count - 1 && up[top_index + 1] * base > 1.0)
            top_index++; /* nodes increase, and with them the position of the largest term */
        double total = 1.0, first = m[top_index], second = first * first, logarithms = fabs(log_p[top_index]);
        double here = first * fabs(u) + 0.5 * second + logarithms, away = 0.0, term = 1.0;
        for (int i = top_index + 1; i < count; i++) {
            double factor = up[i] * base;
            term *= factor;
            total += term;
            first += term * m[i];
            second += term * m[i] * m[i];
            logarithms += term * fabs(log_p[i]);
            away += term * (i - top_index);
            if (term < 1e-20 && factor < 0.5)
                break; /* factors fall: what is left is less than this term */
        }
        term = 1.0;
        for (int i = top_index - 1; i >= 0; i--) {
            double factor = down[i + 1] * inverse;
            term *= factor;
            total += term;
            first += term * m[i];
            second += term * m[i] * m[i];
            logarithms += term * fabs(log_p[i]);
            away += term * (top_index - i);
            if (term < 1e-20 && factor < 0.5)
                break;
        }
        double exponents = (first * fabs(u) + 0.5 * second + logarithms) / total;
        double top = m[top_index] * u + (log_p[top_index] - 0.5 * m[top_index] * m[top_index]);
        enter(table, j, top, total, first, counting + 22.0 * exponents + 24.0 * here + 28.0 * away / total);
    }
}

ratio_table tabulate(workspace *space, const round_law *law, double step, double first, int nodes)
{
    ratio_table table = {.nodes = nodes};
    spend(space, 20.0 * nodes * law->size);
    double **columns[] = {&table.u, &table.psi, &table.slope, &table.excess, &table.psi_error, &table.excess_error};
    for (int i = 0; i < 6; i++)
        *columns[i] = doubles(space, nodes);
    for (int j = 0; j < nodes; j++)
        table.u[j] = step * (first + j);
    double reach = larger(fabs(table.u[0]), fabs(table.u[nodes - 1])), largest = law->m[law->size - 1];
    double rarest = 0.0;
    for (int i = 0; i < law->size; i++)
        rarest = smaller(rarest, law->log_p[i]);
    if (largest * (reach + largest) <= SAFE_EXPONENT && rarest >= SAFE_LOG_PROBABILITY) {
        directly(space, law, &table, reach);
        return table;
    }
    if (evenly_spaced(law, reach)) {
        double *up = doubles(space, law->size), *down = doubles(space, law->size);
        if (neighbour_ratios(law, up, down)) {
            by_products(law, &table, up, down);
            return table;
        }
    }
    logarithmically(law, &table);
    return table;
}
