/* Rounds of finitely many losses, which stand beside allocations in a composition (S-94). */
#include "arithmetic.h"
#include "spectral.h"

/* Discarded losses are likelier than this. */
#define SMALLEST_MASS 1e-280

/* log E_P[e^{c L}] and the mean and variance of L under the law tilted by c; with nodes, if samples are to be taken. */
tilted_factor tilt_atoms(workspace *space, const atoms *of, double c, int samples)
{
    double top = -INFINITY, total = 0.0, lost = 0.0, size = 0.0, first = 0.0, second = 0.0;
    double *weight = samples ? doubles(space, of->size) : NULL;
    spend(space, 20.0 * of->size);
    for (int j = 0; j < of->size; j++)
        top = larger(top, of->log_p[j] + c * of->loss[j]);
    for (int j = 0; j < of->size; j++) {
        double exponent = of->log_p[j] + c * of->loss[j] - top, term = exp(exponent);
        if (weight != NULL)
            weight[j] = term;
        add_compensated(&total, &lost, term);
        size += term * (fabs(of->log_p[j]) + fabs(c * of->loss[j]));
        first += term * of->loss[j];
    }
    total += lost;
    first /= total;
    tilted_factor result = {.sign = 1.0, .mean = first};
    tilted_round *round = &result.of;
    double distance = 0.0;
    for (int j = 0; j < of->size; j++) {
        double share = (weight != NULL ? weight[j] : exp(of->log_p[j] + c * of->loss[j] - top)) / total;
        if (weight != NULL)
            weight[j] = share;
        second += share * (of->loss[j] - first) * (of->loss[j] - first);
        distance += share * fabs(of->loss[j] - first) *
                    (40.0 + 4.0 * (fabs(of->log_p[j]) + fabs(c * of->loss[j]) + fabs(top)) + 4.0 * size / total);
    }
    double rounding = U * (40.0 + 4.0 * (size / total + fabs(top)));
    *round = (tilted_round){.tilt = c, .log_moment = top + log(total), .centre = first, .variance = second};
    round->log_moment_error = rounding + U * (16.0 + 8.0 * fabs(round->log_moment));
    /* Weights carry the rounding of their exponents, and losses less the centre that of both (S-19). */
    round->first_order_error = 1.05 * U * distance;
    for (int j = 0; j < of->size && weight != NULL; j++)
        round->first_order_error += 2.0 * U * weight[j] * (fabs(of->loss[j]) + fabs(first));
    if (weight != NULL) {
        round->nodes = of->size;
        round->weight = weight;
        round->loss = doubles(space, of->size);
        for (int j = 0; j < of->size; j++)
            round->loss[j] = of->loss[j];
    }
    result.loss_variance = larger(second, 1e-300);
    return result;
}

/* The part of delta that the law has alone; only a guide. */
double delta_of_large_atoms(const atoms *of, double epsilon)
{
    double total = 0.0;
    for (int j = of->size - 1; j >= 0 && of->loss[j] > epsilon; j--)
        total += exp(of->log_p[j]) * -expm1(epsilon - of->loss[j]);
    return total;
}

/* log of a bound on E_Q[e^{-c L}]. */
double log_inverse_of_atoms(const atoms *of, double c)
{
    double total = 0.0;
    for (int j = 0; j < of->size; j++)
        total += exp(smaller(of->log_p[j] - (1.0 + c) * of->loss[j], 700.0));
    return log(total) + 1e-12 * (1.0 + c);
}

/* Leaves out the losses from the one given on: as -log(1 - .), the probability of that under Q and P, a bound on the
 * relative error of both, and the least of them. */
void discard_atoms(workspace *space, allocation *factor, double loss, double *log_q, double *log_p, double *relative,
                   double *least)
{
    const atoms *whole = factor->atoms;
    atoms *kept = allocate(space, sizeof(atoms));
    double p = 0.0, q = 0.0, size = 0.0;
    *kept = *whole;
    while (kept->size > 1 && whole->loss[kept->size - 1] >= loss)
        kept->size--;
    for (int j = whole->size - 1; j >= kept->size; j--) {
        p += exp(whole->log_p[j]);
        q += exp(whole->log_p[j] - whole->loss[j]);
        size = larger(size, fabs(whole->log_p[j]) + fabs(whole->loss[j]));
    }
    if (kept->size < whole->size && !(p > SMALLEST_MASS && q > 0.0))
        decline(space, RARE_LOSSES);
    *log_p = p > 0.0 ? log(-log1p(-p)) : -INFINITY;
    *log_q = q > 0.0 ? log(-log1p(-q)) : -INFINITY;
    *relative = U * (whole->size + 100.0 + 10.0 * size);
    *least = kept->size < whole->size ? whole->loss[kept->size] : INFINITY;
    factor->atoms = kept;
}
