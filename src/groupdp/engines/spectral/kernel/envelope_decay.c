/* How fast the characteristic function of an envelope's large losses falls (S-113): their density g under the tilted law is
 * analytic between events, and is integrated by parts, once, or twice, or four or six times. Its derivatives are at most Cauchy's
 * bounds, from a disk around each outcome.
 */
#include "arithmetic.h"
#include "envelope.h"

#define ORDERS 7
/* Largest derivatives of the share of losses beyond a border, times powers of its width. */
static const double SHARE[ORDERS] = {1.0, 2.70704, 11.2666, 108.282, 945.73, 10395.01, 332640.1};
/* A panel that begins at a border may begin with a loss that is less by rounding. */
#define AT_A_BORDER 1e-9
static const double RADII[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0};

typedef struct {
    double by[ORDERS]; /* |g^(n)| is at most this, n = 0 ... 6, but for e^log_scale */
} derivatives;

/* a loss(u) - u^2 / 2 between low and high is at most its value at an end, and this more (it is convex but for -u^2 / 2). */
static double more_between(double low, double high) { return 0.125 * (high - low) * (high - low) * (1.0 + 1e-9); }

/* Bounds on the derivatives by the loss of a density at the outcomes of one arc between low and high: with a disk of radius r
 * = radius / top around each, g is at most e^level / (mean_low least) in it, and its image has at least the radius `reach`. */
static derivatives between(const envelope_table *at, const arc *on, double low, double high, double mean_low, double mean_high,
                           double a, double log_scale)
{
    derivatives best = {{INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}};
    double least_share = mean_low / on->top, most_share = smaller(mean_high / on->top, 1.0), mean;
    for (int i = 0; i < (int)(sizeof RADII / sizeof RADII[0]); i++) {
        double radius = RADII[i], r = radius / on->top, least = 1.0, reach = mean_low * r, level, turn = 0.0;
        if (on->own < 0) {
            double kept = larger(1.0 - most_share * expm1(radius), cos(radius) * exp(-most_share * radius));
            double away = (1.0 - least_share) * radius * exp(radius) / kept;
            if (!(kept > 0.0 && away < 0.9))
                break;
            least = 1.0 - away;
            reach *= 1.0 - 0.5 * away;
            turn = log(cos(radius));
        }
        double from = low - r, to = high + r, at_from = loss_on(at->of, on, from, &mean), at_to = loss_on(at->of, on, to, &mean);
        if (a >= 0.0) {
            level = larger(a * at_from - 0.5 * from * from, a * at_to - 0.5 * to * to) + more_between(from, to);
        } else {
            double nearest = larger(from, 0.0);
            level = a * (at_from + turn) - 0.5 * nearest * nearest;
        }
        level += on->log_weight - HALF_LOG_2PI + 0.5 * r * r - log_scale;
        double size = exp(level) / (mean_low * least) * (1.0 + 1e-9);
        for (int n = 0; n < ORDERS; n++) {
            best.by[n] = smaller(best.by[n], size);
            size *= (n + 1.0) / reach;
        }
    }
    return best;
}

/* Of g times the share of losses that are large. */
static derivatives of_large(const envelope_table *at, derivatives of, double loss, double a)
{
    const borders *by = &at->at;
    double width = 0.0;
    if (by->last > 0.0 && loss < by->last * (1.0 + AT_A_BORDER))
        width = by->last - by->first;
    else if (loss >= by->near * (1.0 - AT_A_BORDER) && a > 0.0)
        width = by->far - by->near;
    if (!(width > 0.0))
        return of;
    derivatives result = of;
    for (int n = 0; n < ORDERS; n++) {
        double ways = 1.0, distance = 1.0;
        result.by[n] = 0.0;
        for (int j = 0; j <= n; j++) {
            result.by[n] += ways * SHARE[j] / distance * of.by[n - j];
            ways *= (n - j) / (j + 1.0);
            distance *= width;
        }
    }
    return result;
}

/* Whether none of a loss is large. */
static int is_none_large(const envelope_table *at, double loss, double a)
{
    return (at->at.last > 0.0 && loss < at->at.first) || (a > 0.0 && loss >= at->at.far);
}

/* Whether an arc ends, or begins, at an event. */
static int is_event(const envelope *of, const arc *on, int end)
{
    for (int i = 0; i < of->events; i++)
        if (of->event[i].u == (end ? on->high : on->low))
            return 1;
    return 0;
}

/* Adds what one sign of the losses has. */
static void add_side(const envelope_table *at, double a, envelope_decay *to)
{
    for (int p = 0; p < at->panels; p++) {
        const panel *one = &at->panel[p];
        if (one->zone == SMALL || (one->zone == BEYOND && a > 0.0))
            continue;
        double width = one->loss_high - one->loss_low, mean_least = one->mean_low, first;
        derivatives by = between(at, one->on, one->low, one->high, one->mean_low, one->mean_high, a, to->log_scale);
        double level = larger(a * one->loss_low - 0.5 * one->low * one->low, a * one->loss_high - 0.5 * one->high * one->high);
        double size = exp(level + more_between(one->low, one->high) + one->on->log_weight - HALF_LOG_2PI - to->log_scale) / mean_least;
        /* g' = g (a - (u + var / m) / m), 0 <= var / m <= top - m. */
        if (one->on->own >= 0)
            first = larger(fabs(a - one->low / mean_least), fabs(a - one->high / mean_least));
        else
            first = larger(fabs(a - one->low / one->mean_high), fabs(a - (one->high + one->on->top) / mean_least + 1.0));
        by.by[0] = smaller(by.by[0], size);
        by.by[1] = smaller(by.by[1], size * first * (1.0 + 1e-9));
        by = of_large(at, by, one->loss_low, a);
        to->variation[0] += width * by.by[1];
        to->variation[1] += width * by.by[2];
        to->variation[2] += width * by.by[4];
        to->variation[3] += width * by.by[6];
    }
    for (int i = 0; i < at->of->arcs; i++) {
        const arc *on = &at->of->arc[i];
        for (int end = 0; end < 2; end++) {
            double u = end ? on->high : on->low, mean, loss = loss_on(at->of, on, u, &mean);
            if (is_none_large(at, loss, a))
                continue;
            int cancels = is_event(at->of, on, end);
            derivatives by = of_large(at, between(at, on, u, u, mean, mean, a, to->log_scale), loss, a);
            for (int n = cancels ? 3 : 1; n < 6; n++)
                to->jump[n] += by.by[n];
        }
    }
}

/* g, g' and g'' at an outcome of an arc, but for phi(u) e^{a loss}, added with a sign, and their sizes: with mean m, variance v
 * and third central moment k of the shift, d loss = m du, dm = v du, dv = k du. */
static void add_density(const envelope *of, const arc *on, double u, double a, double sign, double *sum, double *size)
{
    double m, variance = 0.0, third = 0.0, loss = loss_on(of, on, u, &m);
    if (on->own < 0) {
        double none = exp(of->log_h0 - loss - on->log_weight);
        variance = none * m * m;
        third = -none * m * m * m;
        for (int i = 0; i < of->size; i++)
            if (on->active[i]) {
                double away = of->mu[i] - m, part = exp(of->log_h[i] + of->mu[i] * (u - 0.5 * of->mu[i]) - loss - on->log_weight);
                variance += part * away * away;
                third += part * away * away * away;
            }
    }
    double g = on->weight / m, first = a - (u + variance / m) / m;
    double second = (-1.0 + (u * variance - third + 2.0 * variance * variance / m) / m) / (m * m);
    double sizes = fabs(a) + (u + on->top) / m + 1.0, curved = (1.0 + (u + 4.0 * on->top) * on->top) / (m * m);
    double by[] = {g, g * first, g * (first * first + second)}, most[] = {g, g * sizes, g * (sizes * sizes + curved)};
    for (int n = 0; n < 3; n++) {
        sum[n] += sign * by[n];
        size[n] += most[n];
    }
}

/* The jumps of g, g' and g'' at events, where the densities of what is active before and after, and of the component that has
 * its own loss, almost cancel. */
static void add_jumps(const envelope_table *at, double a, envelope_decay *to)
{
    const envelope *of = at->of;
    for (int i = 0; i < of->events; i++) {
        const event *here = &of->event[i];
        const arc *before = &of->arc[here->before], *after = &of->arc[here->after];
        double mean, loss = loss_on(of, before, here->u, &mean), jump[3] = {0.0, 0.0, 0.0}, size[3] = {0.0, 0.0, 0.0};
        int which = here->component;
        arc own = {.own = which, .weight = of->h[which], .top = of->mu[which]};
        if (is_none_large(at, loss, a))
            continue;
        add_density(of, before, here->u, a, 1.0, jump, size);
        add_density(of, after, here->u, a, -1.0, jump, size);
        add_density(of, &own, here->u, a, here->enters ? 1.0 : -1.0, jump, size);
        double factor = exp(a * loss - 0.5 * here->u * here->u - HALF_LOG_2PI - to->log_scale);
        derivatives all = {{0.0}};
        for (int n = 0; n < 3; n++)
            all.by[n] = factor * (fabs(jump[n]) + 1e-9 * size[n]);
        all = of_large(at, all, loss, a);
        for (int n = 0; n < 3; n++)
            to->jump[n] += all.by[n];
    }
    for (int i = 0; i < of->arcs; i++) { /* what is left out begins at the end; at loss 0 both signs meet */
        const arc *on = &of->arc[i];
        double mean, loss = loss_on(of, on, on->high, &mean);
        if (on->high >= of->end && !is_none_large(at, loss, a))
            to->jump[0] += exp(on->log_weight - 0.5 * on->high * on->high - HALF_LOG_2PI + a * loss - to->log_scale) / mean;
        loss = loss_on(of, on, on->low, &mean);
        if (!(at->at.last > 0.0) && fabs(loss) < 1e-9)
            to->jump[0] += 1e-9 * exp(on->log_weight - 0.5 * on->low * on->low - HALF_LOG_2PI + a * loss - to->log_scale) / mean;
    }
}

envelope_decay decay_of(const envelope_table *at, double c)
{
    double log_small, log_large;
    envelope_moments(at, c, &log_small, &log_large);
    envelope_decay result = {.log_scale = log_large};
    add_side(at, 1.0 + c, &result);
    add_jumps(at, 1.0 + c, &result);
    if (!(at->at.last > 0.0)) {
        add_side(at, -c, &result);
        add_jumps(at, -c, &result);
    }
    return result;
}

/* |F(c + is')| for all s' >= s: integrated by parts n times, jumps of the first n - 1 derivatives and the integral of the n-th. */
double decayed(const envelope_decay *by, double s)
{
    static const int times[] = {1, 2, 4, 6};
    double least = INFINITY;
    for (int i = 0; i < 4; i++) {
        double total = by->variation[i];
        for (int n = times[i] - 1; n >= 0; n--)
            total = n == times[i] - 1 ? (total + by->jump[n]) / s : total / s + by->jump[n] / s;
        least = smaller(least, total);
    }
    return least * (1.0 + 1e-9);
}
