/* G(c) - 1 without cancellation, for losses so small that log G would drown in the rounding of 1 (S-23).
 *
 *     G(c) - 1 = E[ B g(Psi) ],      g(Psi) = e^Psi e2(c Psi) + c gap(Psi),
 *     e2(y) = e^y - 1 - y,      gap(Psi) = Psi e^Psi - e^Psi + 1,
 *
 * which is E[A e2(c Psi) + c (A Psi - A + B)] with A = B e^Psi: every term is non-negative and of second order.
 */
#include "arithmetic.h"
#include "spectral.h"

/* Below this argument, e2 and gap are summed from their series. */
#define SERIES 0.5
/* Larger products of (1 + c) and the error of Psi are not worked with. */
#define LARGEST_ERROR 5e-3

/* sum_k coefficient_k x^k, even and odd powers apart: two short chains instead of a long one. */
static inline double series(const double *coefficient, int terms, double x)
{
    double square = x * x, even = 0.0, odd = 0.0;
    for (int k = terms - 2 + terms % 2; k >= 0; k -= 2) {
        even = coefficient[k] + even * square;
        odd = (k + 1 < terms ? coefficient[k + 1] : 0.0) + odd * square;
    }
    return even + x * odd;
}

#define TERMS 15

/* 1 / (k + 2)! */
static const double INVERSE_FACTORIAL[TERMS] = {
    1.0 / 2.0,         1.0 / 6.0,          1.0 / 24.0,          1.0 / 120.0,           1.0 / 720.0,
    1.0 / 5040.0,      1.0 / 40320.0,      1.0 / 362880.0,      1.0 / 3628800.0,       1.0 / 39916800.0,
    1.0 / 479001600.0, 1.0 / 6227020800.0, 1.0 / 87178291200.0, 1.0 / 1307674368000.0, 1.0 / 20922789888000.0,
};
/* (k + 1) / (k + 2)! */
static const double GAP[TERMS] = {
    1.0 / 2.0,          2.0 / 6.0,           3.0 / 24.0,           4.0 / 120.0,            5.0 / 720.0,
    6.0 / 5040.0,       7.0 / 40320.0,       8.0 / 362880.0,       9.0 / 3628800.0,        10.0 / 39916800.0,
    11.0 / 479001600.0, 12.0 / 6227020800.0, 13.0 / 87178291200.0, 14.0 / 1307674368000.0, 15.0 / 20922789888000.0,
};

/* e^y - 1 - y = sum_{k >= 2} y^k / k!. */
static double exp_beyond_first_order(double y)
{
    return fabs(y) < SERIES ? y * y * series(INVERSE_FACTORIAL, TERMS, y) : expm1(y) - y;
}

/* y e^y - e^y + 1 = sum_{k >= 2} (k - 1) y^k / k!. */
static double entropy_gap(double y)
{
    return fabs(y) < SERIES ? y * y * series(GAP, TERMS, y) : exp(y) * (y - 1.0) + 1.0;
}

/* The trapezoid sum for G(c) - 1, and a bound on its rounding error; not finite where a term overflows or an error is
 * too large for the analysis. */
void excess_moment(const quadrature *grid, double c, double *excess, double *error)
{
    const branch_table *table = &grid->table;
    double total = 0.0, lost = 0.0, doubt = 0.0;
    for (int j = 0; j < table->nodes; j++) {
        double psi = table->psi[j], log_b = table->left.log[j], psi_error = table->psi_error[j];
        double log_density = grid->log_weight[j] + log_b, density = exp(log_density);
        double ratio = exp(psi), change = expm1(c * psi); /* e^{c Psi} - 1 */
        double terms = ratio * exp_beyond_first_order(c * psi) + c * entropy_gap(psi);
        /* g' = (1 + c) e^Psi (e^{c Psi} - 1); half of g'' is below (1 + c)^2 e^Psi (1 + e^{c Psi}) / 2. */
        double scaled = (1.0 + c) * psi_error;
        double carried = ratio * (scaled * fabs(change) + scaled * scaled * (change + 2.0));
        /* Each term is evaluated to 150 U and the rounding of c Psi; its weight carries that of its logarithm. */
        double rounding = U * (150.0 + 32.0 * (fabs(grid->log_weight[j]) + fabs(log_b)) + 4.0 * fabs(c * psi)) + SUMMED;
        add_compensated(&total, &lost, density * terms);
        doubt += density * (terms * (rounding + table->left.log_error[j]) + carried);
        if (!(scaled <= LARGEST_ERROR) && density * ratio * (change + 1.0) > 0.0)
            doubt = INFINITY;
    }
    *excess = total + lost;
    *error = 1.01 * doubt;
}

/* Bound on what the trapezoid errors of E[A] = 1 and E[B] = 1 add: they enter with the factors 1 + c and c. */
double identity_error(const quadrature *grid, double c)
{
    return (1.0 + c) * exp(log_error(grid, 0.0, 0.0, 0.0)) + c * exp(log_error(grid, -1.0, 0.0, 0.0));
}
