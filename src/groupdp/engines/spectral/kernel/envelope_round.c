/* One round of an envelope in closed form (S-115): with u where the loss of the active components is eps, and every other
 * component at its own threshold,
 *
 *     R(e^eps) = sum_i h_i (Phi(mu_i - u_i) - LR_i(u_i) Phi(-u_i)),      u_i = u if i is active, else eps / mu_i + mu_i / 2,
 *
 * no term negative.
 */
#include "arithmetic.h"
#include "envelope.h"

static const arc *arc_of_loss(const envelope *of, double loss)
{
    double mean;
    for (int i = 0; i < of->arcs; i++) {
        const arc *on = &of->arc[i];
        if (on->own < 0 && loss_on(of, on, on->high, &mean) >= loss)
            return on;
    }
    return NULL;
}

/* R(e^eps), a bound on its error, and -dR / d eps. Beyond the end R is less than what is left out. */
double one_envelope_round(const envelope *of, double epsilon, double *error, double *rate)
{
    const arc *on = arc_of_loss(of, epsilon);
    *error = *rate = 0.0;
    if (on == NULL) {
        *error = exp(of->log_lost);
        return 0.0;
    }
    double mean, total = 0.0, wrong = 0.0, mass = 0.0, u = outcome_of_loss(of, on, epsilon);
    double doubt = fabs(loss_on(of, on, u, &mean) - epsilon) + doubt_of_loss(on, of->size, epsilon, mean, u);
    mass = of->h0 * exp(log_normal_cdf(-u) + epsilon);
    for (int i = 0; i < of->size; i++) {
        double m = of->mu[i], at = on->active[i] ? u : epsilon / m + 0.5 * m, z = m - at, exponent = m * (at - 0.5 * m);
        double beyond = exp(log_normal_cdf(z)), moved = exp(exponent + log_normal_cdf(-at));
        total += of->h[i] * (beyond - moved);
        wrong += of->h[i] * U * (beyond * (15.0 * z * z + 140.0 + 4.0 * m * (fabs(z) + 1.0) + of->size) +
                                 moved * (15.0 * at * at + 140.0 + 14.0 * m * (at + m) + of->size));
        mass += of->h[i] * exp(log_normal_cdf(-at) + epsilon);
    }
    *rate = mass;
    *error = 1.01 * wrong + 1.01 * mass * doubt;
    return total;
}
