/* How far apart the shifts of one side are that an outcome leaves likely: a bound on their posterior variance (S-27).
 *
 *     (log R)''(v) = Var_v(m) <= V for every real v,      weights p_i e^{m_i v - m_i^2 / 2}
 *
 * A law of many shifts spans far more than any outcome leaves open, and the strip of S-7 and the cells of S-22 need not
 * pay for its span.
 */
#include "arithmetic.h"
#include "spectral.h"

/* Laws that span less are served as well by their span. */
#define WIDE_SPAN 12.0
/* Steps in v, and halvings of one of them. */
#define MOST_STEPS 40000
#define MOST_HALVINGS 12
/* A step is this part of the posterior deviation: the bound is then about a quarter above the variance. */
#define STRIDE 0.15
/* Weights below this of the largest one are charged, not added. */
#define LOG_FAR -600.0

/* Where to begin and to end: beyond, sum_i (m_i - m_end)^2 w_i / w_end <= e^-2 bounds the variance. */
static void ends_of(const side *law, double *first, double *last)
{
    int n = law->size;
    const double *m = law->shift, *log_p = law->log_p;
    *first = INFINITY;
    *last = -INFINITY;
    for (int i = 1; i < n; i++) {
        double gap = m[i] - m[0], room = log(n) + 2.0 + 2.0 * log(gap) + (log_p[i] - log_p[0]);
        *first = smaller(*first, 0.5 * (m[i] + m[0]) - room / gap);
    }
    for (int i = 0; i < n - 1; i++) {
        double gap = m[n - 1] - m[i], room = log(n) + 2.0 + 2.0 * log(gap) + (log_p[i] - log_p[n - 1]);
        *last = larger(*last, 0.5 * (m[i] + m[n - 1]) + room / gap);
    }
}

/* Posterior mean at v and E_v[(m - mean)^2 e^{h |m - mean|}], which bounds the variance at every v' within h. */
static double variance_near(const side *law, double v, double h, double *variance)
{
    int n = law->size, low = 0, high = n;
    h += 4.0 * U * (fabs(v) + h); /* v is rounded */
    const double *m = law->shift, *log_p = law->log_p;
    double top = -INFINITY, total = 0.0, first = 0.0, bound = 0.0;
    for (int i = 0; i < n; i++)
        top = larger(top, m[i] * (v - 0.5 * m[i]) + log_p[i]);
    while (low < n - 1 && m[low] * (v - 0.5 * m[low]) + log_p[low] < top + LOG_FAR)
        low++;
    while (high > low + 1 && m[high - 1] * (v - 0.5 * m[high - 1]) + log_p[high - 1] < top + LOG_FAR)
        high--;
    for (int i = low; i < high; i++) {
        double term = exp(m[i] * (v - 0.5 * m[i]) + log_p[i] - top);
        total += term;
        first += term * m[i];
    }
    double mean = first / total, second = 0.0, span = span_of(law);
    for (int i = low; i < high; i++) {
        double away = fabs(m[i] - mean), term = exp(m[i] * (v - 0.5 * m[i]) + log_p[i] - top) * away * away;
        second += term;
        bound += term * exp(h * away);
    }
    *variance = second / total;
    return bound / total + n * span * span * exp(h * span + LOG_FAR);
}

double posterior_variance(workspace *space, const side *law)
{
    double span = span_of(law), widest = 0.25 * span * span * (1.0 + 8.0 * U), most = exp(-2.0);
    if (!(span > WIDE_SPAN))
        return widest;
    double first, last, reached, h = 0.1, variance;
    ends_of(law, &first, &last);
    /* Relative error of every weight, and of e^{h (m - mean)} with h <= 1 by that of the mean. */
    double reach = larger(fabs(first), fabs(last)), doubt = slope_error(law, reach) * (2.0 + 2.0 * largest_shift(law));
    if (!(first <= last && doubt < 1e-3))
        return widest;
    reached = first - 1e-9 * (1.0 + fabs(first));
    last += 1e-9 * (1.0 + fabs(last));
    for (int steps = 0; reached < last; steps++) {
        if (steps >= MOST_STEPS || !(most < 0.5 * widest))
            return widest;
        /* Large steps where a single shift is likely, as long as they do not decide. */
        double bound = variance_near(law, reached + h, h, &variance);
        spend(space, 6.0 * law->size + 1000.0);
        for (int i = 0; i < MOST_HALVINGS && bound > larger(most, 1.5 * variance); i++) {
            h *= 0.5;
            bound = variance_near(law, reached + h, h, &variance);
            spend(space, 6.0 * law->size + 1000.0);
        }
        most = larger(most, bound);
        double next = reached + 2.0 * h;
        if (!(next > reached) || most != most)
            return widest;
        reached = next;
        h = smaller(STRIDE / sqrt(larger(variance, 1e-4 * most)), 1.0);
    }
    return smaller(most * (1.0 + 4.0 * doubt + 1e-6), widest);
}

void bound_spread(workspace *space, branch *of)
{
    of->right.variance = posterior_variance(space, &of->right);
    of->left.variance = posterior_variance(space, &of->left);
}
