/* One round of one branch, in closed form (S-71): with u where the loss is epsilon,
 *
 *     delta = sum_i a_i (Phi(x_i - u) - e^{x_i u - x_i^2 / 2} Phi(-u)) + e^eps sum_j b_j (e^{-y_j u - y_j^2 / 2} Phi(-u) - Phi(-y_j - u)),
 *
 * no term negative.
 */
#include "arithmetic.h"
#include "spectral.h"

#define FARTHEST 300.0
#define MOST_STEPS 80
/* Deltas below e to this are left to the other ways. */
#define SMALLEST_LOG_DELTA -600.0

/* delta at the loss of one outcome, with its error; the loss, with its error; and |d log delta / du|. */
typedef struct {
    double delta, error, loss, loss_error, rate;
} point;

/* e^`scale` sum_i p_i |Phi(s m_i - u) - e^{s m_i u - m_i^2 / 2} Phi(-u)| of one side, s its sign, and a bound on its error. */
static double terms_of(const side *law, double sign, double u, double scale, double *error)
{
    double total = 0.0, below = log_normal_cdf(-u), of_below = 15.0 * u * u + 140.0, more = 4.0 * fabs(scale) + law->size;
    *error = 0.0;
    for (int i = 0; i < law->size; i++) {
        double m = law->shift[i], z = sign * m - u, exponent = sign * m * u - 0.5 * m * m;
        if (!(m > 0.0))
            continue;
        double beyond = exp(log_normal_cdf(z) + scale), moved = exp(exponent + below + scale);
        total += law->p[i] * (sign * (beyond - moved));
        *error += law->p[i] * U * (beyond * (15.0 * z * z + 140.0 + 4.0 * m * (fabs(z) + 1.0) + more) +
                                   moved * (of_below + 14.0 * (m * fabs(u) + 0.5 * m * m) + more));
    }
    return total;
}

static point point_at(workspace *space, const branch *of, double u)
{
    point at;
    bookmark place = mark(space);
    branch_table table = {.right = tabulate_side(space, &of->right, 0, &u, 1), .left = tabulate_side(space, &of->left, 1, &u, 1)};
    double log_a = table.right.log[0], log_b = table.left.log[0], right_error, left_error, left_mass = 0.0;
    double slope = table.right.mean[0] + table.left.mean[0];
    at.loss = log_a - log_b;
    at.loss_error = (table.right.log_error[0] + table.left.log_error[0]) * (1.0 + 4.0 * U) + 2.0 * U * fabs(at.loss);
    rewind_to(space, place);
    double right = terms_of(&of->right, 1.0, u, 0.0, &right_error), left = terms_of(&of->left, -1.0, u, at.loss, &left_error);
    at.delta = right + left;
    at.error = 1.01 * (right_error + left_error + left * at.loss_error) + 4.0 * U * at.delta;
    for (int j = 0; j < of->left.size; j++)
        left_mass += of->left.p[j] * exp(log_normal_cdf(-of->left.shift[j] - u) + at.loss);
    at.rate = slope * left_mass / at.delta; /* only guides */
    return at;
}

/* Where delta, or the loss, crosses a value, about: Newton's method within a bracket. */
static int crossing(workspace *space, const branch *of, int by_loss, double value, double *u)
{
    double low = -FARTHEST, high = FARTHEST, at = 0.0;
    for (int i = 0; i < MOST_STEPS; i++) {
        double slope, error, excess, rate;
        if (by_loss) {
            excess = value - psi_of(of, at, &slope, &error);
            rate = slope;
        } else {
            point here = point_at(space, of, at);
            excess = here.delta > 0.0 ? log(here.delta) - value : -1.0;
            rate = here.rate;
        }
        if (excess > 0.0)
            low = at;
        else
            high = at;
        double next = at + excess / rate;
        if (!(next > low && next < high))
            next = 0.5 * (low + high);
        if (fabs(next - at) <= (i < MOST_STEPS - 1 ? 1e-12 : 1e-8) * (1.0 + fabs(at))) {
            *u = next;
            return fabs(next) < FARTHEST - 1.0;
        }
        at = next;
    }
    return 0;
}

/* The first point at or beyond u, in one direction, where delta is certainly on the side of the target, or the loss on that
 * of epsilon; 0 if there is none near. */
static int certain(workspace *space, const branch *of, int by_loss, double value, double direction, double u, point *at)
{
    double distance = 1e-16 * (1.0 + fabs(u));
    for (int i = 0; i < 40; i++, distance *= 2.0) {
        *at = point_at(space, of, u + direction * distance);
        double sure = direction * (by_loss ? at->loss - value : value - at->delta);
        if (sure >= (by_loss ? at->loss_error : at->error))
            return isfinite(at->delta) && isfinite(at->loss) && at->delta > 0.0;
    }
    return 0;
}

/* Whether the closed form answers, to how narrow it is. */
int solve_one_round(workspace *space, const job *work, answer *found)
{
    const round_law *law = &work->whole[0];
    int by_loss = work->question == LOG_DELTA;
    double u, value = work->argument;
    point low, high;
    if (work->rounds != 1 || law->count != 1.0 || law->branches != 1 || law->gaussians != 0 || law->allocated != NULL)
        return 0;
    if (!by_loss && !(value > SMALLEST_LOG_DELTA && value < 0.0))
        return 0;
    if (!crossing(space, &law->branch[0], by_loss, value, &u)) {
        *found = (answer){.evaluations = 1}; /* epsilon is 0 where delta is not above the target even at a loss below 0 */
        return !by_loss && crossing(space, &law->branch[0], 1, 0.0, &u) &&
               certain(space, &law->branch[0], 1, 0.0, -1.0, u, &high) &&
               high.delta + high.error <= exp(value) * (1.0 - 16.0 * U * (1.0 + fabs(value)));
    }
    if (by_loss) { /* delta falls: below epsilon it is larger */
        if (!certain(space, &law->branch[0], 1, value, 1.0, u, &low) || !certain(space, &law->branch[0], 1, value, -1.0, u, &high))
            return 0;
        if (!(low.delta > 2.0 * low.error && log(low.delta) > SMALLEST_LOG_DELTA))
            return 0;
        double least = log(low.delta - low.error), most = log(high.delta + high.error);
        found->lower = least - 16.0 * U * (1.0 + fabs(least));
        found->upper = smaller(most + 16.0 * U * (1.0 + fabs(most)), 0.0);
    } else {
        double target = exp(value), slack = target * 16.0 * U * (1.0 + fabs(value));
        if (!certain(space, &law->branch[0], 0, target + slack, -1.0, u, &low) ||
            !certain(space, &law->branch[0], 0, target - slack, 1.0, u, &high))
            return 0;
        found->lower = larger(low.loss - low.loss_error, 0.0);
        found->upper = larger(high.loss + high.loss_error, 0.0);
    }
    found->nodes = law->branch[0].right.size + law->branch[0].left.size;
    found->samples = found->evaluations = 1;
    return 1;
}
