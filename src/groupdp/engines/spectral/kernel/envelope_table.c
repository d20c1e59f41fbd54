/* Moments of an envelope's losses by Gauss and Legendre's rule (S-111): on each arc losses are analytic, and the panels
 * are as narrow as the proved error asks for. Between two borders losses are partly on either side: with y from 0 to 1
 * between these, y^6 (462 - 1980 y + 3465 y^2 - 3080 y^3 + 1386 y^4 - 252 y^5) of them are beyond.
 */
#include "arithmetic.h"
#include "envelope.h"

#define WIDEST 0.5
#define NARROWEST 1e-9
/* The integrand changes by a factor of e to this in a panel at most, where the decay is bounded by cells (S-113). */
#define STEEPEST 1.0
#define NEGLIGIBLE 50.0
#define LOG_SKIPPED 55.0
#define MOST_OPEN 200
#define MOST_TURN 1.0
/* Half of the sum of the ellipse's axes over half the panel. */
static const double RHO[] = {1.6, 2.2, 3.2, 4.8, 7.0, 10.0, 16.0, 32.0};
#define RHOS ((int)(sizeof RHO / sizeof RHO[0]))


static double raised_share(double from, double to, double loss)
{
    double y = (loss - from) / (to - from);
    if (y > 0.5)
        return y >= 1.0 ? 1.0 : 1.0 - raised_share(0.0, 1.0, (to - loss) / (to - from));
    return y <= 0.0 ? 0.0 : y * y * y * y * y * y * (462.0 - y * (1980.0 - y * (3465.0 - y * (3080.0 - y * (1386.0 - 252.0 * y)))));
}

/* What the share may be wrong by: its slope, 2772 (y (1 - y))^5, times the error of y, and rounding. */
static double doubt_of_share(double from, double to, double loss, double doubt)
{
    double y = smaller(larger((loss - from) / (to - from), 0.0), 1.0), off = (doubt + 8.0 * U * (loss + to)) / (to - from);
    double both = y * (1.0 - y) + off, share = raised_share(from, to, loss);
    return 1.01 * 2772.0 * both * both * both * both * both * off + U * (400.0 * smaller(share, 1.0 - share) + (y > 0.5 ? 4.0 : 0.0));
}

/* log of a bound on the mass of one panel. */
static double log_panel_mass(const panel *one, int above, int below, double c)
{
    double level = log_add(above ? (1.0 + c) * one->loss_high : -INFINITY, below ? -c * one->loss_low : -INFINITY);
    return level + one->on->log_weight - HALF_LOG_2PI - 0.5 * one->low * one->low + log(one->high - one->low) + 1e-9 * (1.0 + fabs(level));
}

/* log of a bound on the error of the rule on one panel, for losses above 0, or below, or both, |Im z| up to `frequency`. */
static double log_panel_error(const envelope_table *at, const panel *one, int above, int below, double c, double frequency)
{
    const arc *on = one->on;
    double half = 0.5 * (one->high - one->low), middle = 0.5 * (one->high + one->low), best = INFINITY, mean;
    best = log_panel_mass(one, above, below, c) + LOG_2; /* of the rule's sum, and of the integral */
    if (one->skipped)
        return best;
    for (int i = 0; i < RHOS; i++) {
        double rho = RHO[i], high = 0.5 * half * (rho - 1.0 / rho), wide = 0.5 * half * (rho + 1.0 / rho);
        double turn = on->own >= 0 ? 0.0 : on->top * high, nearest = larger(middle - wide, 0.0), level = -INFINITY;
        if (turn > MOST_TURN)
            break;
        double least = loss_on(at->of, on, middle - wide, &mean), most = loss_on(at->of, on, middle + wide, &mean);
        if (above)
            level = (1.0 + c) * most;
        if (below)
            level = log_add(level, -c * (least + log(cos(turn))));
        level += frequency * high * mean / cos(turn);
        level += on->log_weight - HALF_LOG_2PI + 0.5 * (high * high - nearest * nearest);
        if (one->zone == PARTLY_SMALL || one->zone == PARTLY_BEYOND) { /* |loss - its border| off the axis */
            double from = one->zone == PARTLY_SMALL ? at->at.first : at->at.near;
            double to = one->zone == PARTLY_SMALL ? at->at.last : at->at.far;
            double away = (one->loss_high - from + 2.0 * wide * mean / cos(turn)) / (to - from), power = away * away * away;
            level += log(1.0 + power * power * (462.0 + away * (1980.0 + away * (3465.0 + away * (3080.0 + away * (1386.0 + away * 252.0))))));
        }
        level += log(64.0 / 15.0 * half / (1.0 - 1.0 / (rho * rho))) - 2.0 * RULE * log(rho) + 1e-9 * (1.0 + fabs(level));
        best = smaller(best, level);
        if (level > best + 20.0)
            break;
    }
    return best;
}

/* log of bounds on what the rule may be wrong by, for the small losses and the large ones, those below 0 among them. */
void rule_errors(const envelope_table *at, double c, double frequency, double *log_small, double *log_large)
{
    int keeps = at->at.last > 0.0;
    *log_small = *log_large = -INFINITY;
    for (int i = 0; i < at->panels; i++) {
        const panel *one = &at->panel[i];
        double error = log_panel_error(at, one, one->zone != BEYOND, 1, c, frequency);
        if (keeps)
            *log_small = log_add(*log_small, error);
        if (!keeps || (one->zone != SMALL && one->zone != BEYOND))
            *log_large = log_add(*log_large, error);
    }
    *log_small += 1e-9;
    *log_large += 1e-9;
}

/* The same for the masses of what is beyond, under P and under Q. */
double log_beyond_error(const envelope_table *at, int under_q)
{
    double error = -INFINITY;
    for (int i = 0; i < at->panels; i++)
        if (at->panel[i].zone >= PARTLY_BEYOND)
            error = log_add(error, log_panel_error(at, &at->panel[i], !under_q, under_q, 0.0, 0.0));
    return error + 1e-9;
}

/* The probability under P and under Q that a loss is beyond. */
void masses_beyond(const envelope_table *at, double *log_p, double *log_q)
{
    double p = 0.0, q = 0.0, lost_p = 0.0, lost_q = 0.0;
    for (int n = 0; n < at->points; n++)
        if (at->beyond[n] > 0.0) {
            add_compensated(&p, &lost_p, at->beyond[n] * exp(at->log_mass[n] + at->loss[n]));
            add_compensated(&q, &lost_q, at->beyond[n] * exp(at->log_mass[n]));
        }
    *log_p = log(p + lost_p);
    *log_q = log(q + lost_q);
}

/* log of a bound on the sum of what is on the wrong side of one border, at Re z = c (-1: under Q). */
double log_split(const envelope_table *at, enum zone border, double c)
{
    double apart = at->at.last > 0.0 ? at->at.last * (1.0 + 1e-9) : 0.0;
    double peak = -INFINITY, total = 0.0;
    for (int n = 0; n < at->points; n++)
        if (at->split[n] > 0.0 && (at->loss[n] > apart) == (border == PARTLY_BEYOND))
            peak = larger(peak, at->log_mass[n] + (1.0 + c) * at->loss[n]);
    if (peak == -INFINITY)
        return peak;
    for (int n = 0; n < at->points; n++)
        if (at->split[n] > 0.0 && (at->loss[n] > apart) == (border == PARTLY_BEYOND))
            total += at->split[n] * exp(at->log_mass[n] + (1.0 + c) * at->loss[n] - peak);
    return peak + log(total) + 1e-9 * (1.0 + fabs(peak));
}

/* Nodes and weights on [-1, 1], right to 8 U and, relatively, 40 U: Newton's method for P_16. */
static void gauss_legendre(double *node, double *weight)
{
    for (int i = 0; i < RULE; i++) {
        double x = cos(PI * (i + 0.75) / (RULE + 0.5)), slope = 1.0;
        for (int tries = 0; tries < 8; tries++) {
            double before = 1.0, here = x;
            for (int n = 2; n <= RULE; n++) {
                double next = ((2.0 * n - 1.0) * x * here - (n - 1.0) * before) / n;
                before = here;
                here = next;
            }
            slope = RULE * (before - x * here) / (1.0 - x * x);
            x -= here / slope;
        }
        node[i] = x;
        weight[i] = 2.0 / ((1.0 - x * x) * slope * slope);
    }
}

typedef struct {
    double low, high;
} stretch;

static panel make_panel(const envelope_table *at, const arc *on, double low, double high, enum zone zone)
{
    panel one = {.on = on, .low = low, .high = high, .zone = zone};
    one.loss_low = loss_on(at->of, on, low, &one.mean_low);
    one.loss_high = loss_on(at->of, on, high, &one.mean_high);
    return one;
}

/* Whether a component that is not active has next to nothing of the density that active ones have at the same loss, and so
 * under every tilt. */
static int is_negligible(const envelope_table *at, const panel *one)
{
    double mean, u = at->of->end;
    for (int i = 0; i < at->of->arcs; i++) {
        const arc *active = &at->of->arc[i];
        if (active->own < 0 && loss_on(at->of, active, active->high, &mean) >= one->loss_high) {
            u = outcome_of_loss(at->of, active, one->loss_high);
            return one->on->log_weight - 0.5 * one->low * one->low < active->log_weight - 0.5 * u * u - LOG_SKIPPED;
        }
    }
    return 0;
}

/* The panels of one part of an arc. */
static void divide(workspace *space, envelope_table *at, const arc *on, double low, double high, enum zone zone,
                   double c, double frequency, rule_goals goal)
{
    stretch open[MOST_OPEN];
    int count = (int)ceil((high - low) / WIDEST);
    for (int i = 0; i < count; i++) {
        int depth = 1;
        open[0] = (stretch){low + (high - low) * i / count, low + (high - low) * (i + 1) / count};
        while (depth > 0) {
            stretch part = open[--depth];
            panel one = make_panel(at, on, part.low, part.high, zone);
            double middle = 0.5 * (part.low + part.high);
            double level_low = (1.0 + c) * one.loss_low - 0.5 * part.low * part.low;
            double level_high = (1.0 + c) * one.loss_high - 0.5 * part.high * part.high;
            int coarse = fabs(level_high - level_low) > STEEPEST && larger(level_low, level_high) + on->log_weight > at->level - NEGLIGIBLE;
            if (zone == BEYOND)
                coarse = 0;
            double here = zone == SMALL ? goal.small : zone == PARTLY_SMALL ? smaller(goal.small, goal.large) : goal.large;
            if (on->own >= 0 && is_negligible(at, &one)) {
                one.skipped = 1;
                coarse = 0;
            } else {
                coarse = coarse || (here < INFINITY && log_panel_error(at, &one, zone != BEYOND, 1, c, frequency) > here);
                coarse = coarse || (zone >= PARTLY_BEYOND && goal.beyond < INFINITY &&
                                    log_panel_error(at, &one, 1, 0, 0.0, 0.0) > goal.beyond);
            }
            if (coarse && part.high - part.low > NARROWEST * part.high &&
                depth + 2 <= MOST_OPEN) {
                open[depth++] = (stretch){middle, part.high};
                open[depth++] = (stretch){part.low, middle};
                continue;
            }
            if (at->panels == at->room)
                decline(space, NODES);
            at->panel[at->panels++] = one;
            at->points += one.skipped ? 0 : RULE;
        }
    }
    spend(space, 400.0 * at->of->size);
}

static void fill(workspace *space, envelope_table *at)
{
    double node[RULE], weight[RULE], mean;
    gauss_legendre(node, weight);
    at->loss = doubles(space, at->points);
    at->log_mass = doubles(space, at->points);
    at->doubt = doubles(space, at->points);
    at->split = doubles(space, at->points);
    at->small = doubles(space, at->points);
    at->large = doubles(space, at->points);
    at->beyond = doubles(space, at->points);
    spend(space, 10.0 * at->points * (at->of->size + 2.0));
    for (int p = 0, n = 0; p < at->panels; p++) {
        const panel *one = &at->panel[p];
        double half = 0.5 * (one->high - one->low), middle = 0.5 * (one->high + one->low);
        if (one->skipped)
            continue;
        at->weight_error = larger(at->weight_error, U * (80.0 + at->of->size + 20.0 * one->high * one->high));
        for (int i = 0; i < RULE; i++, n++) {
            double u = middle + half * node[i];
            at->loss[n] = loss_on(at->of, one->on, u, &mean);
            at->log_mass[n] = one->on->log_weight - 0.5 * u * u - HALF_LOG_2PI + log(half * weight[i]);
            at->doubt[n] = doubt_of_loss(one->on, at->of->size, at->loss[n], mean, u);
            at->small[n] = one->zone == SMALL;
            at->large[n] = one->zone == LARGE;
            at->beyond[n] = one->zone == BEYOND;
            at->split[n] = 0.0;
            if (one->zone == PARTLY_SMALL) {
                at->large[n] = raised_share(at->at.first, at->at.last, at->loss[n]);
                at->small[n] = 1.0 - at->large[n];
                at->split[n] = doubt_of_share(at->at.first, at->at.last, at->loss[n], at->doubt[n]);
            } else if (one->zone == PARTLY_BEYOND) {
                at->beyond[n] = raised_share(at->at.near, at->at.far, at->loss[n]);
                at->large[n] = 1.0 - at->beyond[n];
                at->split[n] = doubt_of_share(at->at.near, at->at.far, at->loss[n], at->doubt[n]);
            }
        }
    }
}

envelope_table tabulate_envelope(workspace *space, const envelope *of, borders borders, double c, double frequency, rule_goals goal)
{
    envelope_table at = {.of = of, .at = borders, .room = MOST_PANELS};
    at.panel = allocate(space, MOST_PANELS * sizeof(panel));
    at.level = -INFINITY;
    for (int i = 0; i < of->arcs; i++)
        for (int j = 0; j <= 16; j++) {
            double mean, u = of->arc[i].low + j * (of->arc[i].high - of->arc[i].low) / 16.0;
            at.level = larger(at.level, (1.0 + c) * loss_on(of, &of->arc[i], u, &mean) - 0.5 * u * u + of->arc[i].log_weight);
        }
    for (int i = 0; i < of->arcs; i++) {
        const arc *on = &of->arc[i];
        double mean, loss_low = loss_on(of, on, on->low, &mean), loss_high = loss_on(of, on, on->high, &mean), from = on->low;
        double knot[] = {borders.first, borders.last, borders.near, borders.far, INFINITY};
        for (int zone = borders.last > 0.0 ? SMALL : LARGE; zone <= BEYOND; zone++) {
            if (loss_low >= knot[zone])
                continue;
            double to = loss_high <= knot[zone] ? on->high : outcome_of_loss(of, on, knot[zone]);
            if (to > from)
                divide(space, &at, on, from, to, (enum zone)zone, c, frequency, goal);
            from = to;
            if (loss_high <= knot[zone])
                break;
        }
    }
    fill(space, &at);
    return at;
}

/* log of the sums at Re z = c, of the small losses and of the large ones. If none is small, the atom alone is. */
void envelope_moments(const envelope_table *at, double c, double *log_small, double *log_large)
{
    int keeps = at->at.last > 0.0;
    double small = 0.0, large = 0.0, peak_small = log(at->of->atom), peak_large = -INFINITY;
    for (int n = 0; n < at->points; n++) {
        double above = at->log_mass[n] + (1.0 + c) * at->loss[n], below = at->log_mass[n] - c * at->loss[n];
        if (at->large[n] > 1e-30)
            peak_large = larger(peak_large, above);
        if (at->small[n] > 0.0)
            peak_small = larger(peak_small, above);
        *(keeps ? &peak_small : &peak_large) = larger(keeps ? peak_small : peak_large, below);
    }
    for (int n = 0; n < at->points; n++) {
        double above = at->log_mass[n] + (1.0 + c) * at->loss[n], below = at->log_mass[n] - c * at->loss[n];
        double share = at->small[n];
        if (at->large[n] > 0.0)
            large += at->large[n] * exp(above - peak_large);
        if (share > 0.0)
            small += share * exp(above - peak_small);
        if (keeps)
            small += exp(below - peak_small);
        else
            large += exp(below - peak_large);
    }
    small += exp(log(at->of->atom) - peak_small);
    *log_small = peak_small + log(small);
    *log_large = peak_large + log(large);
}
