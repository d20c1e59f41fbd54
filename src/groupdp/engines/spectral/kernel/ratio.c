/* The likelihood ratio on a set of nodes, with its rounding error (ratio.py; section 6). */
#include "arithmetic.h"
#include "spectral.h"

#define SAFE_EXPONENT 600.0
#define SAFE_LOG_PROBABILITY -650.0
/* Below this largest shift, R - 1 is summed with expm1. */
#define SMALL_SHIFT 0.5
/* While no exponent exceeds this, |R - 1| < 1/2 and log R comes from R - 1 alone. */
#define SMALL_EXPONENT 0.4

static void directly(const round_law *law, ratio_table *table, double reach)
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
    for (int j = 0; j < table->nodes; j++) {
        double u = table->u[j], magnitude = fabs(u);
        double total = 0.0, first = 0.0, second = 0.0, excess = 0.0;
        for (int i = 0; i < count; i++) {
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
            excess_error = U * ((count + 14.0) * (total + present) + 10.0 * exponents);
        }
        double ratio = total + absent, ratio_error = excess_error, psi;
        if (fabs(excess) < 0.5) {
            psi = log1p(excess);
        } else {
            psi = log(ratio);
            ratio_error = U * ((count + 16.0) * ratio + 10.0 * exponents);
        }
        table->psi[j] = psi;
        table->slope[j] = first / ratio;
        table->excess[j] = excess;
        table->psi_error[j] = ratio_error / larger(ratio - ratio_error, 0.5 * ratio) + ELEMENTARY * fabs(psi);
        table->excess_error[j] = larger(excess_error, ratio_error);
    }
}

static void logarithmically(const round_law *law, ratio_table *table)
{
    int count = law->size;
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
        double psi = top + log(total);
        double exponents = (first * fabs(u) + 0.5 * second + logarithms) / total;
        /* The sum, its logarithm (at most log n, to 8 U) and the distances to the top (at most log n on average). */
        double psi_error = U * (counting + 12.0 * exponents + 3.0 * fabs(top)) + ELEMENTARY * fabs(psi);
        table->psi[j] = psi;
        table->slope[j] = first / total;
        table->psi_error[j] = psi_error;
        table->excess[j] = expm1(psi);
        table->excess_error[j] = exp(psi) * expm1(psi_error) + ELEMENTARY * fabs(table->excess[j]);
    }
}

ratio_table tabulate(workspace *space, const round_law *law, double step, double first, int nodes)
{
    ratio_table table = {.nodes = nodes};
    double **columns[] = {&table.u, &table.psi, &table.slope, &table.excess, &table.psi_error, &table.excess_error};
    for (int i = 0; i < 6; i++)
        *columns[i] = doubles(space, nodes);
    for (int j = 0; j < nodes; j++)
        table.u[j] = step * (first + j);
    double reach = larger(fabs(table.u[0]), fabs(table.u[nodes - 1])), largest = law->m[law->size - 1];
    double rarest = 0.0;
    for (int i = 0; i < law->size; i++)
        rarest = smaller(rarest, law->log_p[i]);
    if (largest * (reach + largest) > SAFE_EXPONENT || rarest < SAFE_LOG_PROBABILITY)
        logarithmically(law, &table);
    else
        directly(law, &table, reach);
    return table;
}
