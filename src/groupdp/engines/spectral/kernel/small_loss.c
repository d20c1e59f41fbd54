/* G(a) - 1 without cancellation, for losses so small that log G would drown in the rounding of 1 (section 8).
 *
 *     remove:  G(1 + c) - 1 = E[ R e2(c Psi) + c (R Psi - x) ],     e2(y) = e^y - 1 - y,  x = R - 1
 *     add:     G(-c) - 1    = E[ e2(-c Psi) + c (x - Psi) ]
 */
#include "arithmetic.h"
#include "spectral.h"

/* Where x is this small, Psi and x are treated as one quantity in the error analysis. */
#define NEAR 0.5

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

/* 1 / (k + 2)! */
static const double INVERSE_FACTORIAL[15] = {
    1.0 / 2.0,         1.0 / 6.0,          1.0 / 24.0,          1.0 / 120.0,          1.0 / 720.0,
    1.0 / 5040.0,      1.0 / 40320.0,      1.0 / 362880.0,      1.0 / 3628800.0,      1.0 / 39916800.0,
    1.0 / 479001600.0, 1.0 / 6227020800.0, 1.0 / 87178291200.0, 1.0 / 1307674368000.0, 1.0 / 20922789888000.0,
};

/* e^y - 1 - y. */
static double exp_beyond_first_order(double y)
{
    if (!(fabs(y) < 0.5))
        return expm1(y) - y;
    /* sum_{k >= 2} y^k / k!, k up to 16: the next term is below 1e-18 of the first. */
    return y * y * series(INVERSE_FACTORIAL, 15, y);
}

/* 1 / (k + 2) and 1 / ((k + 1) (k + 2)) */
static const double INVERSE[19] = {
    1.0 / 2,  1.0 / 3,  1.0 / 4,  1.0 / 5,  1.0 / 6,  1.0 / 7,  1.0 / 8,  1.0 / 9,  1.0 / 10, 1.0 / 11,
    1.0 / 12, 1.0 / 13, 1.0 / 14, 1.0 / 15, 1.0 / 16, 1.0 / 17, 1.0 / 18, 1.0 / 19, 1.0 / 20,
};
static const double INVERSE_PRODUCT[19] = {
    1.0 / 2,   1.0 / 6,   1.0 / 12,  1.0 / 20,  1.0 / 30,  1.0 / 42,  1.0 / 56,  1.0 / 72,  1.0 / 90,  1.0 / 110,
    1.0 / 132, 1.0 / 156, 1.0 / 182, 1.0 / 210, 1.0 / 240, 1.0 / 272, 1.0 / 306, 1.0 / 342, 1.0 / 380,
};

/* (1 + x) log(1 + x) - x = sum_{k >= 2} (-x)^k / (k (k - 1)). */
static double entropy_gap(double x, double psi, double ratio)
{
    if (!(fabs(x) < 0.1))
        return ratio * psi - x;
    return x * x * series(INVERSE_PRODUCT, 19, -x);
}

/* x - log(1 + x) = sum_{k >= 2} (-x)^k / k. */
static double log_gap(double x, double psi)
{
    if (!(fabs(x) < 0.1))
        return x - psi;
    return x * x * series(INVERSE, 19, -x);
}

/* The trapezoid sum for G(a) - 1, and a bound on its rounding error; not finite where a term overflows. */
void excess_moment(const quadrature *grid, enum direction direction, double c, double *excess, double *error)
{
    const ratio_table *table = &grid->table;
    double total = 0.0, lost = 0.0, doubt = 0.0;
    for (int j = 0; j < table->nodes; j++) {
        double x = table->excess[j], psi = table->psi[j], x_error = table->excess_error[j];
        double density = exp(grid->log_weight[j]);
        int near = fabs(x) < NEAR;
        double ratio = near ? 1.0 + x : exp(psi), terms, joint, power, separate;
        if (direction == REMOVE) {
            double change = expm1(c * psi); /* R^c - 1 */
            power = change + (1.0 + 4.0 * U);
            terms = ratio * exp_beyond_first_order(c * psi) + c * entropy_gap(x, psi, ratio);
            joint = (1.0 + c) * fabs(change);
            /* Psi enters with the derivative c R R^c, and through R = e^Psi with R^c - 1; x with -c. */
            separate = ratio * (c * power + fabs(change));
        } else {
            power = exp(-c * psi); /* R^-c */
            terms = exp_beyond_first_order(-c * psi) + c * log_gap(x, psi);
            joint = c * fabs(expm1(-(1.0 + c) * psi));
            separate = c * power;
        }
        /* Derivative of a term in x (Psi following) times the error of x, and half the largest second derivative (at
         * most 4 (1 + c)^2 R^{+-c} for R > 1/2) times its square; where x is not small, Psi and x apart. */
        double scaled = (1.0 + c) * x_error;
        double carried = near ? joint * x_error + scaled * scaled * (1.0 + 3.0 * power)
                              : separate * (table->psi_error[j] + ELEMENTARY) + c * x_error;
        /* Each term is evaluated to 400 U and the rounding of c Psi; its weight carries that of its logarithm. */
        double rounding = U * (400.0 + 32.0 * fabs(grid->log_weight[j]) + 4.0 * fabs(c * psi)) + SUMMED;
        add_compensated(&total, &lost, density * terms);
        doubt += density * (terms * rounding + carried);
    }
    *excess = total + lost;
    *error = 1.01 * doubt;
}

/* Bound on the trapezoid errors of E[1] = 1 and E[R] = 1 together: they enter with factors up to 1 + c. */
double identity_error(const quadrature *grid)
{
    return exp(log_error(grid, 0.0, 0.0, 0.0)) + exp(log_error(grid, 1.0, 0.0, 0.0));
}
