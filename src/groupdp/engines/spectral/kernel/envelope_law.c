/* The loss of an outcome of an envelope (S-110): component i, i = 0, ..., at u ~ N(0, 1) has under Q the loss
 *
 *     min(log alpha(u), mu_i u - mu_i^2 / 2)  (log alpha(u) for i = 0),    alpha(u) = max over sets A of alpha_A(u),
 *     alpha_A(u) = (h_0 + sum_A h_i LR_i(u)) / (h_0 + sum_A h_i),          LR_i(u) = e^{mu_i u - mu_i^2 / 2},
 *
 * where that is positive; P has e^loss times its mass, and losses below 0 mirror those above. The maximum is at the set of all i
 * with LR_i > alpha, which are active. It changes at events, between which alpha is analytic.
 */
#include <string.h>

#include "arithmetic.h"
#include "envelope.h"

#define MOST_ARCS 4096
#define MOST_STEPS 100000
#define WIDEST_STEP 0.25
/* Components within so many doubts of being active count as nearly active, and may move alpha by so many. */
#define NEARLY_ACTIVE 1024.0
#define MOST_SWAY 1000.0
/* Exponents up to here are exponentiated as they are. */
#define LARGEST_EXPONENT 300.0
/* Components and outcomes left out may have this much (e^-36) of delta. */
#define LOG_LEFT_OUT -36.0

/* What a loss may be wrong by: rounding, and a component taken for active that is not, or the other way (S-110). */
double doubt_of_loss(const arc *on, int size, double loss, double mean, double u)
{
    double active = on->own >= 0 ? 1.0 : on->sway, near = larger(on->top, on->nearly); /* on a step of the walk, up to 0.25 on */
    return U * (140.0 + active * (2.0 * size + 100.0 * (1.0 + loss + near * (u + 0.5))) + 100.0 * mean * (u + on->top));
}

double loss_on(const envelope *of, const arc *on, double u, double *mean)
{
    if (on->own >= 0) {
        *mean = of->mu[on->own];
        return *mean * (u - 0.5 * *mean);
    }
    double highest = 0.0, more = 0.0, pull = 0.0;
    for (int i = 0; i < of->size; i++)
        if (on->active[i])
            highest = larger(highest, of->mu[i] * (u - 0.5 * of->mu[i]));
    if (highest < LARGEST_EXPONENT) {
        for (int i = 0; i < of->size; i++)
            if (on->active[i]) {
                double part = of->h[i] * expm1(of->mu[i] * (u - 0.5 * of->mu[i]));
                more += part;
                pull += of->mu[i] * (part + of->h[i]);
            }
        *mean = pull / (on->weight + more);
        return log1p(more / on->weight);
    }
    more = of->h0 * exp(-highest);
    for (int i = 0; i < of->size; i++)
        if (on->active[i]) {
            double part = of->h[i] * exp(of->mu[i] * (u - 0.5 * of->mu[i]) - highest);
            more += part;
            pull += of->mu[i] * part;
        }
    *mean = pull / more;
    return highest + log(more / on->weight);
}

static double weight_of(const envelope *of, const unsigned char *active)
{
    double weight = of->h0;
    for (int i = 0; i < of->size; i++)
        weight += active[i] ? of->h[i] : 0.0;
    return weight;
}

/* log alpha(u), and the set: those above alpha_A are put into A until none changes, each time alpha_A grows. */
double loss_and_active(const envelope *of, double u, unsigned char *active, double *mean)
{
    double loss = 0.0;
    for (int tries = 0; tries < 200; tries++) {
        arc on = {.own = -1, .active = active, .weight = weight_of(of, active)};
        int changed = 0;
        loss = loss_on(of, &on, u, mean);
        for (int i = 0; i < of->size; i++) {
            unsigned char above = of->mu[i] * (u - 0.5 * of->mu[i]) > loss;
            changed |= above != active[i];
            active[i] = above;
        }
        if (!changed)
            break;
    }
    return loss;
}

static double gap(const envelope *of, const arc *on, int i, double u, double *slope)
{
    double mean, value = loss_on(of, on, u, &mean) - of->mu[i] * (u - 0.5 * of->mu[i]);
    *slope = mean - of->mu[i];
    return value;
}

/* Whether the set is active from a to b, but for the doubt of losses: log(alpha / LR_i) is convex in u (C-18). The arc's `sway` is how much
 * more than their own doubt those components may move alpha that are nearly active, or nearly not (S-110). */
static int is_active_between(const envelope *of, arc *on, double a, double b)
{
    double mean_a, mean_b, loss_a = loss_on(of, on, a, &mean_a), loss_b = loss_on(of, on, b, &mean_b), near = 0.0, kept = on->weight;
    double scale = 1.0 + loss_b + on->top * b, unsure = U * (b - a) * on->top * (2.0 * of->size + 30.0 + 8.0 * scale); /* of tangents */
    for (int i = 0; i < of->size; i++) {
        double m = of->mu[i], at_a = loss_a - m * (a - 0.5 * m), at_b = loss_b - m * (b - 0.5 * m);
        double slope_a = mean_a - m, slope_b = mean_b - m, least = at_a, room = 64.0 * U * (1.0 + loss_b + m * b);
        double wide = NEARLY_ACTIVE * 64.0 * U * (1.0 + loss_b + larger(m, on->top) * b);
        if (on->active[i]) {
            if (!(at_a <= room && at_b <= room))
                return 0;
            if (larger(at_a, at_b) > -wide) {
                near += of->h[i];
                kept -= of->h[i];
                on->nearly = larger(on->nearly, m);
            }
            continue;
        }
        if (slope_a < 0.0 && slope_b <= 0.0) {
            least = at_b;
        } else if (slope_a < 0.0) {
            least = at_a + slope_a * smaller(((at_b - at_a) - slope_b * (b - a)) / (slope_a - slope_b), b - a);
            if (least < wide) /* it might be active in between */
                return 0;
        }
        least -= unsure;
        if (!(least >= -room))
            return 0;
        if (least < wide) {
            near += of->h[i];
            on->nearly = larger(on->nearly, m);
        }
    }
    double sway = 1.0 + near / larger(kept, 0.5 * of->h0), most = 1.0 + loss_b + larger(on->top, on->nearly) * b;
    if (near > 0.0 && !(sway * (2.0 * of->size + 100.0 * most) < NEARLY_ACTIVE * 64.0 * scale)) /* others may cease to be active */
        sway = INFINITY;
    on->sway = larger(on->sway, sway);
    return 1;
}

/* Where component i enters or leaves, between a and b. */
static double event_between(const envelope *of, const arc *on, int i, double a, double b)
{
    double slope, sign = on->active[i] ? 1.0 : -1.0, u = 0.5 * (a + b);
    for (int tries = 0; tries < 200 && b - a > 2.0 * U * b; tries++) {
        double value = gap(of, on, i, u, &slope), next = u - value / slope;
        if (sign * value > 0.0)
            b = u;
        else
            a = u;
        if (!(next > a && next < b))
            next = 0.5 * (a + b);
        if (fabs(next - u) <= U * u)
            break;
        u = next;
    }
    return u;
}

static void add_arc(workspace *space, envelope *of, arc one)
{
    if (of->arcs == MOST_ARCS)
        decline(space, NODES);
    if (!(one.sway < MOST_SWAY))
        decline(space, ROUNDED);
    one.log_weight = log(one.weight);
    of->arc[of->arcs++] = one;
}

static arc start_arc(workspace *space, const envelope *of, const unsigned char *active, double low)
{
    unsigned char *own = allocate(space, of->size + 1);
    memcpy(own, active, of->size);
    arc one = {.low = low, .own = -1, .active = own, .weight = weight_of(of, own)};
    for (int i = 0; i < of->size; i++)
        one.top = own[i] ? of->mu[i] : one.top;
    return one;
}

/* The arcs of all outcomes up to the end. */
static void walk(workspace *space, envelope *of)
{
    unsigned char *active = allocate(space, of->size + 1);
    double *since = doubles(space, of->size), *beside = doubles(space, of->size), u = of->first, step = 0.01 * WIDEST_STEP, mean;
    memset(active, 0, of->size + 1);
    active[0] = 1;
    for (int i = 0; i < of->size; i++)
        since[i] = i == 0 ? INFINITY : 0.5 * of->mu[i], beside[i] = 0.0;
    arc here = start_arc(space, of, active, u);
    int pending = -1;
    for (int steps = 0; u < of->end; steps++) {
        double next = smaller(u + step, of->end);
        int differs = 0, which = 0;
        if (steps == MOST_STEPS || !(next > u))
            decline(space, ROUNDED);
        memcpy(active, here.active, of->size);
        loss_and_active(of, next, active, &mean);
        for (int i = 0; i < of->size; i++)
            if (active[i] != here.active[i]) {
                differs++;
                which = i;
            }
        double to = differs == 1 ? event_between(of, &here, which, u, next) : next;
        if (differs > 1 || !is_active_between(of, &here, u, to)) {
            step *= 0.5;
            continue;
        }
        if (differs == 0) {
            u = next;
            step = smaller(2.0 * step, WIDEST_STEP);
            continue;
        }
        here.high = to;
        int enters = !here.active[which], index = of->arcs;
        add_arc(space, of, here);
        if (pending >= 0)
            of->event[pending].after = index;
        if (enters && since[which] < to)
            add_arc(space, of, (arc){.low = since[which], .high = to, .own = which, .weight = of->h[which], .top = of->mu[which],
                                     .nearly = larger(beside[which], here.top)});
        beside[which] = here.top; /* next to an event its loss may be that of the active ones */
        since[which] = enters ? INFINITY : to;
        pending = of->events++;
        of->event[pending] = (event){.u = to, .component = which, .enters = enters, .before = index};
        here = start_arc(space, of, active, to);
        u = to;
        step = smaller(step, WIDEST_STEP);
    }
    here.high = of->end;
    if (pending >= 0)
        of->event[pending].after = of->arcs;
    add_arc(space, of, here);
    for (int i = 0; i < of->size; i++)
        if (since[i] < of->end)
            add_arc(space, of, (arc){.low = since[i], .high = of->end, .own = i, .weight = of->h[i], .top = of->mu[i], .nearly = beside[i]});
}

/* The u of an arc where the loss is this. */
double outcome_of_loss(const envelope *of, const arc *on, double loss)
{
    if (on->own >= 0)
        return loss / of->mu[on->own] + 0.5 * of->mu[on->own];
    double low = on->low, high = on->high, u = 0.5 * (low + high), mean;
    for (int tries = 0; tries < 200; tries++) {
        double value = loss_on(of, on, u, &mean) - loss, next = u - value / mean;
        if (value > 0.0)
            high = u;
        else
            low = u;
        if (!(next > low && next < high))
            next = 0.5 * (low + high);
        if (fabs(next - u) <= 4.0 * U * u)
            return next;
        u = next;
    }
    return u;
}

envelope envelope_of(workspace *space, const side *law, double times, double log_delta)
{
    envelope of = {.log_lost = -INFINITY};
    double budget = smaller(log_delta, 0.0) - log(times) + LOG_LEFT_OUT, lost = -INFINITY;
    int first = law->shift[0] > 0.0 ? 0 : 1, size = law->size;
    if (first == 0 || law->size < 2)
        decline(space, SHIFTS);
    while (size > first + 1 && log_add(lost, law->log_p[size - 1]) + 1e-6 < budget)
        lost = log_add(lost, law->log_p[--size]);
    of.size = size - first;
    of.h = law->p + first;
    of.log_h = law->log_p + first;
    of.mu = law->shift + first;
    of.h0 = law->p[0];
    of.log_h0 = law->log_p[0];
    if (!(of.mu[0] > 1e-3 && of.mu[of.size - 1] < 1e3 && of.h0 > 1e-250))
        decline(space, SHIFTS);
    of.first = 0.5 * of.mu[0];
    of.atom = of.h0 * erf(of.first * 0.70710678118654752440);
    for (int i = 0; i < of.size; i++) { /* Phi(-z) <= e^{-z^2 / 2} / 2 */
        double room = of.log_h[i] + log(2.0 * of.size) - budget;
        of.end = larger(of.end, of.mu[i] + sqrt(2.0 * larger(room, 0.5)));
    }
    of.end = larger(of.end, of.first + 1.0);
    lost = log_add(lost, of.log_h0 + log_normal_cdf(-of.end)); /* h_0 alpha <= h_0 + sum h_i LR_i */
    for (int i = 0; i < of.size; i++)
        lost = log_add(lost, of.log_h[i] + log_normal_cdf(of.mu[i] - of.end) + LOG_2);
    of.log_lost = lost + LOG_2 + log(times) + 1e-6; /* beyond the end: and its mirror image */
    of.arc = allocate(space, MOST_ARCS * sizeof(arc));
    of.event = allocate(space, MOST_ARCS * sizeof(event));
    walk(space, &of);
    return of;
}
