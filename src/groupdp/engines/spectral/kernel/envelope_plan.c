/* Where the contour of an envelope is sampled: which losses are small, the tilt, the period and the reach. Nothing here is
 * certified; what is planned is bounded anew on the contour itself. */
#include "arithmetic.h"
#include "envelope.h"

#define LOG_ALIASES -24.0
#define LOG_BEYOND -22.0
#define LOG_NEARBY -8.0
#define LOG_SMALL_ALONE -34.0
#define LOG_LACKING -25.0
#define BLURRED 1.4
#define BELOW_EPSILON 0.98
#define MOST_SAMPLES 131072
#define PHASE_OF_A_PANEL 10.0
#define LEAST_SAMPLES 64
static const borders WHOLE_LINE = {0.0, 0.0, INFINITY, INFINITY};

#define GOLDEN 0.6180339887498949

static const double SHARES[] = {0.8, 0.5, 0.33, 0.2, 0.12, 0.07, 0.04};
static const double TILTS[] = {0.25, 0.5, 0.75, 0.9, 1.03, 1.1, 1.25, 1.5, 2.0, 3.0};
#define TILTS_TRIED ((int)(sizeof TILTS / sizeof TILTS[0]))

typedef struct {
    const envelope_table *at;
    double times, epsilon;
    int order;
} question_here;

/* log of what a saddle at c says of delta. */
static double level_at(const question_here *asked, double c)
{
    double log_small, log_large;
    envelope_moments(asked->at, c, &log_small, &log_large);
    return log_rest_moment(asked->times, asked->order, log_small, log_large) - c * asked->epsilon - log(c) - log1p(c);
}

/* The tilt where that is least, to a few per cent. */
static double best_tilt(const question_here *asked, double start)
{
    double low = log(start) - 0.7, high = log(start) + 0.7, a, b, at_a, at_b;
    for (int tries = 0; tries < 14; tries++) { /* a bracket */
        double at_low = level_at(asked, exp(low)), middle = level_at(asked, exp(0.5 * (low + high))), at_high = level_at(asked, exp(high));
        if (middle <= at_low && middle <= at_high)
            break;
        double width = high - low;
        if (at_low < at_high) {
            high = 0.5 * (low + high);
            low = high - width;
        } else {
            low = 0.5 * (low + high);
            high = low + width;
        }
    }
    a = high - GOLDEN * (high - low);
    b = low + GOLDEN * (high - low);
    at_a = level_at(asked, exp(a));
    at_b = level_at(asked, exp(b));
    while (high - low > 0.006) {
        if (at_a < at_b) {
            high = b;
            b = a;
            at_b = at_a;
            a = high - GOLDEN * (high - low);
            at_a = level_at(asked, exp(a));
        } else {
            low = a;
            a = b;
            at_a = at_b;
            b = low + GOLDEN * (high - low);
            at_b = level_at(asked, exp(b));
        }
    }
    return exp(0.5 * (low + high));
}

static envelope_table coarse(workspace *space, const envelope *of, borders at, double c)
{
    return tabulate_envelope(space, of, at, c, 0.0, (rule_goals){INFINITY, INFINITY, INFINITY});
}

/* Whether small losses alone hardly ever reach epsilon. */
static int are_small(const envelope_table *at, double times, double epsilon, double tilt, double goal)
{
    double log_small, log_large;
    if (times * at->at.last <= epsilon)
        return 1;
    for (double multiple = 1.2; multiple < 10.0; multiple *= 1.4) {
        double c = tilt * multiple;
        envelope_moments(at, c, &log_small, &log_large);
        if (log_kappa_of(c) + times * log_small - c * epsilon < goal)
            return 1;
    }
    return 0;
}

/* About the number of panels up to a frequency: each has room for a phase of 10 or so. */
static double panels_of(const envelope_table *at, double reach)
{
    double panels = 0.0;
    for (int i = 0; i < at->panels; i++)
        if (!at->panel[i].skipped && at->panel[i].zone != BEYOND)
            panels += 1.0 + reach * (at->panel[i].loss_high - at->panel[i].loss_low) / PHASE_OF_A_PANEL;
    return panels;
}

/* The period and the number of samples for one way of telling small losses from large; 0 if it is out of reach. */
static int plan_for(const envelope_table *at, double times, double epsilon, double log_delta, int order, double start,
                    int roughly, envelope_plan *plan)
{
    question_here asked = {at, times, epsilon, order};
    double c = best_tilt(&asked, start), left = INFINITY, right = INFINITY, log_small, log_large, goal = log_delta + (roughly ? LOG_NEARBY : LOG_ALIASES);
    double aside[2] = {0.0, 0.0}, largest = 0.0;
    envelope_moments(at, 0.0, &log_small, &log_large);
    left = larger(smaller(log_rest_moment(times, order, log_small, log_large), 0.0) - goal, 1.0) / c;
    for (int i = 0; i < TILTS_TRIED; i++) {
        double other = c * TILTS[i];
        envelope_moments(at, other, &log_small, &log_large);
        double level = log_kappa_of(other) + log_rest_moment(times, order, log_small, log_large) - other * epsilon;
        double period = larger(level - goal, 1.0) / fabs(other - c);
        double *best = other < c ? &left : &right;
        if (period < *best) {
            *best = period;
            aside[other > c] = other;
        }
    }
    for (int i = 0; i < at->panels; i++)
        largest = larger(largest, smaller(at->panel[i].loss_high, at->at.far));
    double period = larger(left, smaller(right, larger((times * largest - epsilon) * (1.0 + 1e-6) + 1e-9, 0.0)));
    envelope_moments(at, c, &log_small, &log_large);
    envelope_decay fall = decay_of(at, c);
    double total = log_add(log_small, log_large), low = 2.0 * PI / period * LEAST_SAMPLES, reach = low, most = 2.0 * PI / period * MOST_SAMPLES;
    double g = exp(log_small - total), whole = exp(log_large - total), ratio = exp(fall.log_scale - total);
    for (;; reach *= 1.25) {
        double f = smaller(whole, ratio * decayed(&fall, reach));
        double level = times * total - c * epsilon + log(binomial_rest(g, f, times, order) / (PI * reach));
        if (level < log_delta + (roughly ? LOG_NEARBY : LOG_BEYOND))
            break;
        if (!(reach < most))
            return 0;
    }
    int samples = LEAST_SAMPLES;
    while (samples < reach * period / (2.0 * PI))
        samples *= 2;
    if (samples > MOST_SAMPLES || panels_of(at, reach) > MOST_PANELS)
        return 0;
    *plan = (envelope_plan){.epsilon = epsilon, .log_delta = log_delta, .tilt = c, .period = period, .at = at->at,
                            .rest_from = BELOW_EPSILON * epsilon, .log_small = log_small, .log_large = log_large, .order = order, .samples = samples, .roughly = roughly,
                            .aside = {aside[0], aside[1]}};
    return 1;
}

/* Losses from some multiple of epsilon on are left to closed forms, if what these may lack is negligible (S-116). */
static borders borders_beyond(const envelope_table *at, double times, double epsilon, double log_delta, double tilt, double *log_p)
{
    double largest = 0.0, log_small, log_large, level[3], c[3];
    *log_p = -INFINITY;
    for (int i = 0; i < at->panels; i++)
        largest = larger(largest, at->panel[i].loss_high);
    for (int i = 0; i < 3; i++) {
        c[i] = tilt * (0.6 + 0.25 * i);
        envelope_moments(at, c[i], &log_small, &log_large);
        level[i] = log_kappa_of(c[i]) + times * log_add(log_small, log_large) + 1e-3;
    }
    for (double multiple = 2.0; largest > BLURRED * multiple * epsilon; multiple *= 1.3) {
        borders result = {0.0, 0.0, multiple * epsilon, BLURRED * multiple * epsilon};
        double p = 0.0, q = 0.0, log_delta_there = 0.0;
        for (int n = 0; n < at->points; n++)
            if (at->loss[n] > result.near) {
                p += exp(at->log_mass[n] + at->loss[n]);
                q += exp(at->log_mass[n]);
            }
        for (int i = 0; i < 3; i++)
            log_delta_there = smaller(log_delta_there, level[i] - c[i] * (result.near - 1.02 * epsilon));
        *log_p = log(p);
        if (epsilon + log(times * q) + log_add(log_delta_there, log(times * p)) < log_delta + LOG_LACKING)
            return result;
    }
    *log_p = -INFINITY;
    return WHOLE_LINE;
}

/* The shortest contour found; 0 if there is none. */
int plan_envelope(workspace *space, const envelope *of, double times, double epsilon, double log_delta, int roughly,
                  envelope_plan *plan)
{
    bookmark place = mark(space);
    double tilt = plan->tilt > 0.0 ? plan->tilt : larger(-log_delta, 1.0) / epsilon, log_beyond;
    borders at_first = {0.0, 0.0, INFINITY, INFINITY};
    envelope_table at = coarse(space, of, at_first, tilt);
    question_here whole = {&at, times, epsilon, 1};
    tilt = best_tilt(&whole, tilt);
    at_first = borders_beyond(&at, times, epsilon, log_delta, tilt, &log_beyond);
    for (int i = 0; i < 2 && at_first.near < INFINITY; i++) { /* without the largest losses others decay faster */
        rewind_to(space, place);
        at = coarse(space, of, at_first, tilt);
        tilt = best_tilt(&whole, tilt);
        if (i == 0)
            at_first = borders_beyond(&at, times, epsilon, log_delta, tilt, &log_beyond);
    }
    int planned = plan_for(&at, times, epsilon, log_delta, 2, tilt, roughly, plan), tried = 0;
    for (int i = 0; i < (int)(sizeof SHARES / sizeof SHARES[0]) + 2 && tried < 2; i++) {
        int shares = (int)(sizeof SHARES / sizeof SHARES[0]);
        double share = i < shares ? SHARES[i] : (i == shares ? 1.0 : 0.5) / times;
        if (planned && plan->samples <= 512)
            break;
        if (share * times < 0.5)
            continue;
        rewind_to(space, place);
        borders here = at_first;
        here.last = share * BELOW_EPSILON * epsilon * (1.0 - 1e-6);
        here.first = 0.3 * here.last;
        at = coarse(space, of, here, tilt);
        if (!are_small(&at, times, BELOW_EPSILON * epsilon, tilt, log_delta + LOG_SMALL_ALONE))
            continue;
        envelope_plan other;
        tried++;
        if (plan_for(&at, times, epsilon, log_delta, 1, tilt, roughly, &other) && (!planned || other.samples < plan->samples)) {
            *plan = other;
            planned = 1;
        }
    }
    plan->log_beyond = log_beyond;
    rewind_to(space, place);
    return planned;
}

#define GUESSES 80

/* An epsilon where one round with a loss other than 0 in closed form, and the saddle-point approximation for more such
 * rounds, are delta. */
double guess_epsilon(workspace *space, const envelope *of, double times, double log_delta)
{
    bookmark place = mark(space);
    envelope_table at = coarse(space, of, WHOLE_LINE, 0.0);
    double tilt[GUESSES], level[GUESSES], wide[GUESSES], log_small, log_large, low = 0.0, high = 1e-6, error, rate;
    double log_once = log(times) + (times - 1.0) * log(of->atom), moment[GUESSES];
    for (int i = 0; i < GUESSES; i++) {
        tilt[i] = 1e-3 * pow(1.35, i);
        envelope_moments(&at, tilt[i], &log_small, &log_large);
        moment[i] = log_rest_moment(times, 2, log_small, log_large);
    }
    for (int i = 0; i < GUESSES; i++) { /* the saddle-point approximation, its curvature by differences */
        int j = i == 0 ? 1 : i == GUESSES - 1 ? i - 1 : i;
        double before = (moment[j] - moment[j - 1]) / (tilt[j] - tilt[j - 1]), after = (moment[j + 1] - moment[j]) / (tilt[j + 1] - tilt[j]);
        double variance = larger(2.0 * (after - before) / (tilt[j + 1] - tilt[j - 1]), 1e-300);
        level[i] = moment[i] - log(tilt[i]) - log1p(tilt[i]);
        wide[i] = 0.5 * log(2.0 * PI * variance + 1.0 / (tilt[i] * tilt[i]));
        if (!isfinite(level[i] + wide[i]))
            level[i] = wide[i] = 1e300;
    }
    for (int tries = 0; tries < 60 && !(low > 0.0 && high - low < 0.005 * low); tries++) {
        double epsilon = low > 0.0 ? 0.5 * (low + high) : high, most = INFINITY;
        int best = 0;
        for (int i = 0; i < GUESSES; i++)
            if (level[i] - tilt[i] * epsilon < most) {
                most = level[i] - tilt[i] * epsilon;
                best = i;
            }
        double here = log_add(most - wide[best], log_once + log(one_envelope_round(of, epsilon, &error, &rate)));
        if (here > log_delta && low > 0.0)
            low = epsilon;
        else if (here > log_delta)
            high *= 2.0;
        else if (low > 0.0)
            high = epsilon;
        else
            low = 0.5 * high;
    }
    rewind_to(space, place);
    return low;
}

/* Where the terms with one loss other than 0 alone are delta: epsilon is not below. */
double least_epsilon(const envelope *of, double times, double log_delta)
{
    double low = 0.0, high = 1e-8, error, rate, log_once = log(times) + (times - 1.0) * log(of->atom);
    while (high < 1e6 && log_once + log(one_envelope_round(of, high, &error, &rate)) > log_delta) {
        low = high;
        high *= 2.0;
    }
    for (int tries = 0; tries < 8 && low > 0.0; tries++) {
        double middle = 0.5 * (low + high);
        *(log_once + log(one_envelope_round(of, middle, &error, &rate)) > log_delta ? &low : &high) = middle;
    }
    return low;
}

double guess_log_delta(workspace *space, const envelope *of, double times, double epsilon)
{
    bookmark place = mark(space);
    envelope_table at = coarse(space, of, WHOLE_LINE, 0.0);
    double best = 0.0, log_small, log_large;
    for (double c = 1e-3; c < 1e7; c *= 1.3) {
        envelope_moments(&at, c, &log_small, &log_large);
        best = smaller(best, times * log_add(log_small, log_large) + log_kappa_of(c) - c * epsilon);
    }
    rewind_to(space, place);
    return best;
}
