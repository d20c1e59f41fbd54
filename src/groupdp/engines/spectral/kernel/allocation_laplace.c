/* E[e^{theta X}; Z_t <= cut in all places] of an allocation: e^{theta (1 - p)} times the M-th power of one place's
 *
 *     1 - Phi(-near) + sum_{k >= 1} (theta p / M)^k / k! e^{k (k - 1) s^2 / 2} Phi(near - k s) + sum_i v_i e^{theta x_i},   (S-44)
 *
 * the last sum by Gauss and Legendre's rule between `near` and the cut. */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_MOMENTS 1500
#define MOST_NODES 3200
#define POINTS 16
/* Parts of the path that are smaller than e^this are left out. */
#define LEFT_OUT -60.0
/* How far the path is above the real axis, times the shift: no effect on validity. */
#define HEIGHT 0.8
/* |theta| x at `near`, where the sum over k must be short; on the real axis no term cancels another. */
#define NEAR_EXPONENT 12.0
/* theta x at the cut, on the real axis. */
#define LARGEST_EXPONENT 400.0
#define SHORTEST 1e-7

static const double ABSCISSA[] = {0.095012509837637440185, 0.28160355077925891323, 0.45801677765722738634,
                                  0.61787624440264374845,  0.7554044083550030339,  0.86563120238783174388,
                                  0.94457502307323257608,  0.9894009349916499326};
static const double WEIGHT[] = {0.18945061045506849629, 0.18260341504492358887, 0.16915651939500253819,
                                0.14959598881657673208, 0.12462897125553387205, 0.09515851168249278481,
                                0.062253523938647892863, 0.027152459411754094852};

/* log of x = p L / M at Z = 0. */
static double log_unit(const allocation *of)
{
    return of->log_probability - log(of->places) - 0.5 * of->shift * of->shift;
}

/* x at Z = z, rounded up. */
double allocation_jump(const allocation *of, double z)
{
    double exponent = log_unit(of) + of->shift * z;
    return exp(exponent + 16.0 * U * (1.0 + log(of->places) + of->shift * (of->shift + fabs(z)) - of->log_probability));
}

/* The moments of x up to `near` over k!, times reach^k, with bounds on their errors and on those left out (S-44). */
static void add_moments(workspace *space, transform *result, double log_tolerance)
{
    const allocation *of = result->of;
    double s = of->shift, near = result->near, unit = exp(of->log_probability) / of->places;
    double ratio = result->reach * allocation_jump(of, near), log_reach = log(result->reach * unit);
    double outside = log_normal_cdf(-near), none = exp(outside);
    result->term = doubles(space, MOST_MOMENTS);
    result->doubt = doubles(space, MOST_MOMENTS);
    result->term[0] = -none;
    result->doubt[0] = none * U * (60.0 + 20.0 * fabs(outside) + 2.0 * (fabs(near) + 1.0) * (fabs(near) + 1.0));
    for (int k = 1;; k++) {
        double t = near - k * s, log_phi = log_normal_cdf(t), square = 0.5 * k * (k - 1.0) * s * s, error, value;
        double steep = t > 0.0 ? 0.8 : 1.0 - t;
        if (k == 1) {
            value = result->reach * unit * exp(log_phi);
            error = 60.0 + 20.0 * fabs(log_phi);
        } else {
            double factorial = log_factorial(k);
            value = exp(k * log_reach - factorial + square + log_phi);
            error = 100.0 + 20.0 * (k * (fabs(log_reach) + 1.0) + factorial + square + fabs(log_phi));
        }
        result->term[k] = value;
        result->doubt[k] = value * U * (error + 2.0 * steep * (k * s + fabs(near) + 1.0) + 5.0 * k + 10.0);
        result->terms = k;
        if (k > 1 && 2.0 * ratio <= k + 1.0 && of->places * value <= exp(log_tolerance)) {
            result->rest += value; /* the next ones are at most half of it, and so on */
            break;
        }
        if (k + 1 == MOST_MOMENTS || !isfinite(value))
            decline(space, NODES);
    }
    spend(space, 60.0 * result->terms);
}

/* log of a bound on the error of the rule on a segment with this middle and these half lengths, one of them 0, for every theta
 * with 0 <= Re theta <= real, Im theta >= 0 and |theta| <= reach: by ellipses around the segment (S-44). */
static double log_segment_error(const transform *at, double real, double x, double y, double half_x, double half_y)
{
    static const double SIZES[] = {1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0};
    const allocation *of = at->of;
    double best = INFINITY, half = half_x + half_y;
    for (int i = 0; i < (int)(sizeof SIZES / sizeof SIZES[0]); i++) {
        double rho = SIZES[i], along = 0.5 * half * (rho + 1.0 / rho), across = 0.5 * half * (rho - 1.0 / rho);
        double wide = half_x > 0.0 ? along : across, high = half_x > 0.0 ? across : along, top = y + high, low = y - high;
        double nearest = larger(larger(x - wide, -(x + wide)), 0.0), farthest = larger(top, -low);
        if (!(of->shift * top < 3.1 && of->shift * low > -1.5))
            continue;
        double back = low < 0.0 ? at->reach * sin(-of->shift * low) : 0.0, grows = allocation_jump(of, x + wide) * (real + back);
        double level = 0.5 * farthest * farthest - 0.5 * nearest * nearest - HALF_LOG_2PI + grows;
        level += log(64.0 / 15.0 * half) - 2.0 * POINTS * log(rho) - log1p(-1.0 / (rho * rho));
        best = smaller(best, level);
    }
    return best + 1e-9 * (1.0 + fabs(best));
}

/* Nodes on the segment from a point, and the bound on their error. */
static void add_segment(workspace *space, transform *result, double real, double goal, double x, double y, double to_x,
                        double to_y)
{
    const allocation *of = result->of;
    double half_x = 0.5 * to_x, half_y = 0.5 * to_y, offset = log_unit(of);
    double error = log_segment_error(result, real, x + half_x, y + half_y, fabs(half_x), fabs(half_y));
    if (!(error <= goal) && hypot(half_x, half_y) > SHORTEST) {
        add_segment(space, result, real, goal, x, y, half_x, half_y);
        add_segment(space, result, real, goal, x + half_x, y + half_y, to_x - half_x, to_y - half_y);
        return;
    }
    if (!(error <= goal + 20.0 && result->nodes + POINTS <= MOST_NODES))
        decline(space, NODES);
    result->rest += exp(error);
    for (int i = 0; i < POINTS; i++) {
        double place = i % 2 ? ABSCISSA[i / 2] : -ABSCISSA[i / 2];
        double u = x + half_x + half_x * place, v = y + half_y + half_y * place, size = u * u + v * v;
        double level = WEIGHT[i / 2] * exp(0.5 * (v * v - u * u) - HALF_LOG_2PI), jump = exp(offset + of->shift * u);
        double parts = fabs(offset) + log(of->places) - of->log_probability + of->shift * (of->shift + fabs(u) + fabs(v));
        int j = result->nodes++;
        double cosine = level * cos(-u * v), sine = level * sin(-u * v);
        result->weight[j] = cosine * half_x - sine * half_y;
        result->weight_turned[j] = sine * half_x + cosine * half_y;
        result->x[j] = jump * cos(of->shift * v);
        result->x_turned[j] = jump * sin(of->shift * v);
        result->wrong[j] = U * level * (fabs(half_x) + fabs(half_y)) * (80.0 + 16.0 * size);
        result->wrong_turned[j] = U * level * (fabs(half_x) + fabs(half_y)) * jump * (40.0 + 24.0 * parts);
    }
}

/* Nodes between `near` and the cut, on a path above the real axis, where e^{theta x} falls and does not turn: up, along and
 * down, the last in segments that shorten towards the axis. */
static void add_path(workspace *space, transform *result, double real, double log_tolerance)
{
    const allocation *of = result->of;
    double height = smaller(HEIGHT / of->shift, 1.0), goal = log_tolerance - log(of->places), x = result->near;
    double **columns[] = {&result->x, &result->x_turned, &result->weight, &result->weight_turned, &result->wrong,
                          &result->wrong_turned};
    for (int i = 0; i < 6; i++)
        *columns[i] = doubles(space, MOST_NODES);
    add_segment(space, result, real, goal, x, 0.0, 0.0, height);
    for (double length = height, step; x < of->cut; x += step) {
        step = x + 1.5 * length < of->cut ? length : of->cut - x;
        add_segment(space, result, real, goal, x, height, step, 0.0);
    }
    double shortest = 4.0 / (result->reach * allocation_jump(of, of->cut) * of->shift), v = height;
    for (; v > shortest; v *= 0.5)
        add_segment(space, result, real, goal, of->cut, v, 0.0, -0.5 * v);
    add_segment(space, result, real, goal, of->cut, v, 0.0, -v);
    spend(space, 200.0 * result->nodes);
}

/* For real theta up to `reach`. */
transform transform_on_axis(workspace *space, const allocation *of, double reach)
{
    transform result = {.of = of, .reach = reach, .near = of->cut, .absent = -expm1(of->log_probability)};
    if (!(reach * allocation_jump(of, of->cut) <= LARGEST_EXPONENT))
        decline(space, NODES);
    add_moments(space, &result, -45.0);
    return result;
}

/* For theta with 0 <= Re theta <= real and |theta| <= reach. */
transform transform_off_axis(workspace *space, const allocation *of, double real, double reach, double log_tolerance)
{
    transform result = {.of = of, .reach = reach, .absent = -expm1(of->log_probability)};
    result.near = smaller(of->cut, (log(NEAR_EXPONENT / reach) - log_unit(of)) / of->shift);
    if (!(result.near > -36.0))
        decline(space, NODES);
    add_moments(space, &result, log_tolerance);
    if (result.near < of->cut)
        add_path(space, &result, real, log_tolerance);
    return result;
}

/* log E[e^{theta X}; cut] and a bound on the error of that logarithm: of its real part and its angle together. */
void transform_at(const transform *at, double re, double im, double *log_modulus, double *angle, double *error)
{
    double x = re / at->reach, y = im / at->reach, size = smaller(hypot(x, y) * (1.0 + 4.0 * U), 1.0);
    double v = at->term[at->terms], w = 0.0, doubt = at->doubt[at->terms];
    for (int k = at->terms - 1; k >= 0; k--) {
        double next = v * x - w * y + at->term[k];
        w = v * y + w * x;
        v = next;
        doubt = doubt * size + at->doubt[k];
    }
    double distance = hypot(re, im), along = 0.0, turned = 0.0, all = 0.0;
    for (int i = 0; i < at->nodes; i++) {
        double exponent = re * at->x[i] - im * at->x_turned[i], turn = re * at->x_turned[i] + im * at->x[i];
        double level = exp(exponent);
        double size = level * (fabs(at->weight[i]) + fabs(at->weight_turned[i]));
        doubt += level * (at->wrong[i] + distance * at->wrong_turned[i]);
        if (exponent < LEFT_OUT) {
            doubt += size;
            continue;
        }
        all += size;
        double cosine = level * cos(turn), sine = level * sin(turn);
        along += at->weight[i] * cosine - at->weight_turned[i] * sine;
        turned += at->weight[i] * sine + at->weight_turned[i] * cosine;
    }
    v += along;
    w += turned;
    doubt += 2.0 * U * (at->nodes + 4.0) * all + 2.0 * U * (fabs(v) + fabs(w));
    double modulus = hypot(1.0 + v, w), beside = hypot(v, w), square = 2.0 * v + (v * v + w * w), places = at->of->places;
    double one = square > -0.75 ? 0.5 * log1p(square) : log(modulus), turn = atan2(w, 1.0 + v);
    double relative = (1.01 * doubt + at->rest) / modulus;
    double rounding = beside < 0.5 ? 40.0 * U * beside : 100.0 * U * (1.0 + beside + fabs(one) + fabs(turn)) / modulus;
    *log_modulus = places * one + re * at->absent;
    *angle = places * turn + im * at->absent;
    *error = relative < 0.01 ? places * (1.02 * relative + rounding) +
                                   8.0 * U * (places * (fabs(one) + fabs(turn)) + fabs(re) + fabs(im))
                             : INFINITY;
}

/* The first two derivatives of log E[e^{theta X}; cut] at a real theta; guides only. */
void transform_slope(const transform *at, double theta, double *first, double *second)
{
    double x = theta / at->reach, v = 0.0, d = 0.0, e = 0.0;
    for (int k = at->terms; k >= 0; k--) {
        e = e * x + d;
        d = d * x + v;
        v = v * x + at->term[k];
    }
    d /= at->reach;
    e *= 2.0 / (at->reach * at->reach);
    double places = at->of->places, mean = d / (1.0 + v);
    *first = places * mean + at->absent;
    *second = larger(places * (e / (1.0 + v) - mean * mean), 1e-300);
}
