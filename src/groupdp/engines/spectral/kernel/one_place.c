/* phi(lambda) = E[e^{-lambda L / M}] of one of M places, L = e^{s Z - s^2 / 2}, on a line Im Z = -gamma / s on which lambda L
 * is in the right half plane, by the trapezoid rule (S-80). */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_POINTS 8000
/* e^-x is left out from here on. */
#define LARGEST_PART 80.0

/* Nodes from `low` to `high`, for lambda with |arg lambda - gamma| + s strip <= pi / 2; the rule's error is about
 * e^`log_tolerance` (S-80). */
place_line line_of_place(workspace *space, const allocation *of, double gamma, double strip, double low, double high,
                         double log_tolerance)
{
    double s = of->shift, turned = gamma / s, lift = 0.5 * turned * turned, reach = turned + strip;
    double log_places = log(of->places);
    place_line at = {.of = of, .gamma = gamma, .strip = strip};
    at.step = shortened(2.0 * PI * strip / (1.0 + 0.5 * reach * reach - log_tolerance));
    double first = floor(low / at.step), last = ceil(high / at.step);
    if (!(last - first < MOST_POINTS && at.step * last >= s && at.step * first <= 0.0))
        decline(space, NODES);
    at.points = (int)(last - first) + 1;
    at.rule = exp(LOG_2 + 0.5 * reach * reach - log(expm1(2.0 * PI * strip / at.step)) + 1e-9);
    double lifted = exp(lift) * (1.0 + 1e-9);
    at.outside = lifted * (exp(log_normal_cdf(s - at.step * last)) + exp(log_normal_cdf(at.step * first - s)));
    at.below = lifted * (exp(log_normal_cdf(at.step * first)) + exp(log_normal_cdf(-at.step * last)));
    double **columns[] = {&at.weight, &at.weight_turned, &at.unit, &at.wrong};
    for (int i = 0; i < 4; i++)
        *columns[i] = doubles(space, at.points);
    spend(space, 100.0 * at.points);
    for (int j = 0; j < at.points; j++) {
        double u = at.step * (first + j), turn = u * turned, size = at.step * exp(lift - 0.5 * u * u - HALF_LOG_2PI);
        at.weight[j] = size * cos(turn);
        at.weight_turned[j] = size * sin(turn);
        at.unit[j] = exp(s * u - 0.5 * s * s - log_places);
        at.wrong[j] = U * (200.0 + 4.0 * (u * u + lift + fabs(turn)) + 8.0 * (s * fabs(u) + s * s + log_places));
    }
    return at;
}

/* 1 - phi and phi at lambda = size e^{i angle}, each from terms of its own, with bounds on their errors (S-80). */
place_value place_at(const place_line *at, double size, double angle)
{
    place_value found = {.psi = 0.0};
    double along = size * cos(angle - at->gamma), across = size * sin(angle - at->gamma), share = size / at->of->places;
    double doubt = 0.0, phi_doubt = 0.0, total = 0.0, all = 0.0, phi_all = 0.0;
    for (int j = 0; j < at->points; j++) {
        double p = along * at->unit[j], q = across * at->unit[j], v = at->weight[j], w = at->weight_turned[j];
        double weight = fabs(v) + fabs(w), x = fabs(p) + fabs(q), less = 1.0, turned = 0.0;
        total += weight;
        if (p <= LARGEST_PART) {
            double gone = -expm1(-p), kept = p > 0.5 ? exp(-p) : 1.0 - gone, half = sin(0.5 * q);
            double level = kept * (1.0 - 2.0 * half * half); /* e^{-x} = level + i turned */
            turned = -kept * sin(q);
            less = gone + 2.0 * kept * half * half;
            found.phi += v * level - w * turned;
            found.phi_turned += w * level + v * turned;
            phi_doubt += weight * at->wrong[j] * kept * (1.0 + x);
            phi_all += 2.0 * weight * kept;
            doubt += weight * at->wrong[j] * x * kept;
        }
        double most = weight * (fabs(less) + fabs(turned));
        found.psi += v * less + w * turned;
        found.psi_turned += w * less - v * turned;
        doubt += at->wrong[j] * most;
        all += most;
    }
    double rounds = 2.0 * U * at->points, gone = total * exp(-LARGEST_PART);
    found.psi_error = 1.01 * (doubt + rounds * all + share * at->outside + smaller(2.0, share) * at->rule) + gone;
    found.phi_error = 1.01 * (phi_doubt + rounds * phi_all + at->below + at->rule) + gone;
    return found;
}

/* log phi, its angle and a bound on the error of both together; INFINITY where it is too large. */
void log_place_at(const place_line *at, double size, double angle, double *log_modulus, double *turn, double *error)
{
    place_value here = place_at(at, size, angle);
    double beside = hypot(here.psi, here.psi_turned), relative;
    if (beside < 0.5) {
        double square = beside * beside - 2.0 * here.psi;
        *log_modulus = 0.5 * log1p(square);
        *turn = atan2(-here.psi_turned, 1.0 - here.psi);
        relative = here.psi_error / (1.0 - beside);
        *error = 1.02 * relative + 60.0 * U * beside;
    } else {
        double modulus = hypot(here.phi, here.phi_turned);
        *log_modulus = log(modulus);
        *turn = atan2(here.phi_turned, here.phi);
        relative = here.phi_error / modulus;
        *error = 1.02 * relative + 40.0 * U * (1.0 + fabs(*log_modulus));
    }
    if (!(relative < 0.01))
        *error = INFINITY;
}
