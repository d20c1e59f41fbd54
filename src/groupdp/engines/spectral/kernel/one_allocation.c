/* One round of one allocation R(M, s): delta is E[(X - a)_+] where the group leaves and E[(1 - a X)_+] where it joins, a =
 * e^eps: a sum of exponentials in a (or 1/a) either way, on a line (S-81, S-82) or on the negative axis (S-84). */
#include "arithmetic.h"
#include "spectral.h"

#define PLANS 5
#define MOST_STEPS 60
/* Relative to max(1, epsilon), or to 1 for log delta; wider bounds are left to the other ways. */
#define NARROW_ENOUGH 1e-8
#define SMALLEST_LOG_DELTA_HERE -300.0

/* delta at one epsilon, its bounds, and -d log delta / d eps, which only guides. */
typedef struct {
    double value, lower, upper, rate;
} delta_here;

/* E[(X - a)_+; some place beyond the cut], which is E[X - a; some beyond] and little more; returns how fast that falls in a
 * (S-83). */
static double beyond_the_cut(const exponential_sum *from, double w, double *least, double *most)
{
    const allocation *of = from->of;
    double s = of->shift, places = of->places, z = from->cut, log_one = log_normal_cdf(-z), log_moved = log_normal_cdf(s - z);
    double one = log1p(-exp(log_one)), moved = log1p(-exp(log_moved));
    double some = -expm1(places * one), mean = -expm1(moved + (places - 1.0) * one);
    double relative = U * (200.0 + 40.0 * (fabs(log_one) + fabs(log_moved)) + 4.0 * (fabs(z) + s) * (fabs(z) + s + 1.0));
    double value = mean - some - w * some, error = relative * (mean + (1.0 + w) * some);
    *least = larger(value - error, 0.0);
    *most = smaller(larger(value, 0.0) + error + exp(log_short_of(from, w)), mean * (1.0 + relative));
    return value > 0.0 ? some : 0.0;
}

static delta_here delta_at(const exponential_sum *from, double epsilon)
{
    int joins = from->sign < 0.0;
    double w = expm1(epsilon), sum = 0.0, slope = 0.0, doubt = from->doubt;
    delta_here found;
    if (joins)
        w = from->base > 0.0 ? -expm1(-epsilon) : -exp(-epsilon);
    double pull = from->tilt * w;
    for (int j = 0; j < from->nodes; j++) {
        double turn = from->across[j] * w, cosine = cos(turn), sine = sin(turn), term, more;
        if (from->error != NULL) {
            double level = exp(-from->along[j] * w);
            term = from->real[j] * level;
            more = 0.0;
            doubt += level * from->error[j];
            doubt += fabs(term) * U * (60.0 + 2.0 * from->nodes + 140.0 * from->along[j] * w);
        } else {
            term = from->real[j] * cosine + from->imaginary[j] * sine;
            more = from->across[j] * (from->real[j] * sine - from->imaginary[j] * cosine);
        }
        sum += term;
        slope += from->along[j] * term + more;
    }
    double scale = exp(from->log_scale - pull), least = 0.0, most = 0.0, some = 0.0, alias = 0.0;
    double relative = from->scale_error + U * (60.0 + 16.0 * (fabs(pull) + fabs(from->log_scale)));
    double turning = U * (from->places * (60.0 + 2.0 * from->nodes) + 16.0 * from->turns * fabs(w));
    double wrong = scale * (doubt + turning + from->truncation + 1.02 * relative * fabs(sum)) + from->left_out;
    if (from->error == NULL)
        alias = from->first_alias * larger(1.0, joins ? exp(-epsilon) : 0.0) + exp(log_far_aliases(from, w));
    if (from->cut < INFINITY)
        some = beyond_the_cut(from, w, &least, &most);
    double factor = joins ? exp(epsilon) : 1.0, falling = joins ? exp(-epsilon) : exp(epsilon);
    found.value = (scale * sum + 0.5 * (least + most)) * factor;
    found.lower = (scale * sum - wrong - alias + least) * factor * (1.0 - 40.0 * U);
    found.upper = (scale * sum + wrong + most) * factor * (1.0 + 40.0 * U);
    found.rate = falling * (scale * slope + some) * factor / found.value - (joins ? 1.0 : 0.0);
    return found;
}

/* Bounds on delta; of a line where the group joins, at every loss. */
void sum_delta(const exponential_sum *from, double epsilon, double *lower, double *upper)
{
    delta_here at = delta_at(from, epsilon);
    *lower = at.lower;
    *upper = at.upper;
}

/* Certified log delta; nothing is known below 0. */
void sum_log_delta(const exponential_sum *from, double epsilon, double *lower, double *upper)
{
    *lower = -INFINITY;
    *upper = 0.0;
    if (!(epsilon >= from->nearest && epsilon >= 0.0))
        return;
    delta_here at = delta_at(from, epsilon);
    if (at.lower > 0.0)
        *lower = log(at.lower) - 16.0 * U * (1.0 + fabs(log(at.lower)));
    if (at.upper > 0.0)
        *upper = smaller(log(at.upper) + 16.0 * U * (1.0 + fabs(log(at.upper))), 0.0);
}

/* log delta and its derivative, without a claim. */
void sum_slope(const exponential_sum *from, double epsilon, double *value, double *slope)
{
    delta_here at = delta_at(from, larger(epsilon, 0.0));
    *value = log(at.value);
    *slope = -at.rate;
}

/* Keeps a plan for many evaluations, in memory of its own. */
static void keep_sum(const job *work, const exponential_sum *from)
{
    workspace *keep = work->keep;
    neighbourhood *near = work->near;
    near->planned = near->by_sum = 1;
    near->problem = (prepared){.deviation = sqrt(allocation_variance(work->whole[0].allocated))};
    near->path = (contour){.nodes = from->nodes, .samples = from->nodes};
    near->sum = *from;
    allocation *of = allocate(keep, sizeof(allocation));
    *of = *from->of;
    near->sum.of = of;
    near->sum.along = kept_doubles(keep, from->along, from->nodes);
    near->sum.across = kept_doubles(keep, from->across, from->nodes);
    near->sum.real = kept_doubles(keep, from->real, from->nodes);
    near->sum.imaginary = kept_doubles(keep, from->imaginary, from->nodes);
    near->sum.error = from->error == NULL ? NULL : kept_doubles(keep, from->error, from->nodes);
    near->sum.aside = kept_doubles(keep, from->aside, from->asides);
    near->sum.log_aside = kept_doubles(keep, from->log_aside, from->asides);
    near->sum.pull = kept_doubles(keep, from->pull, from->pulls);
    near->sum.log_pull = kept_doubles(keep, from->log_pull, from->pulls);
}

/* Where delta is e^log_delta, about: Newton's method within a bracket; 0 if that is below the least epsilon. */
static double crossing(const exponential_sum *from, double log_delta, double start, delta_here *at)
{
    double low = larger(from->nearest, 0.0), high = INFINITY, here = larger(start, low);
    for (int i = 0; i < MOST_STEPS; i++) {
        *at = delta_at(from, here);
        double excess = at->value > 0.0 ? log(at->value) - log_delta : -1.0;
        if (excess > 0.0)
            low = here;
        else
            high = here;
        double next = here + excess / at->rate;
        if (!(next > low && next < high))
            next = high < INFINITY ? 0.5 * (low + high) : here + 1.0;
        if (fabs(next - here) <= 1e-14 * (1.0 + here) || high - low <= 1e-15 * (1.0 + here))
            break;
        here = next;
    }
    return here;
}

/* The nearest epsilon found, in one direction, at which delta is certainly on its side of the target. */
static int certain(const exponential_sum *from, double target, double direction, double root, const delta_here *at,
                   double *epsilon)
{
    double distance = 1e-16 * (1.0 + root) + 1.1 * (at->upper - at->lower) / (at->value * larger(at->rate, 1e-3));
    if (!(distance < 1.0))
        return 0;
    for (int i = 0; i < 40; i++, distance *= 1.5) {
        *epsilon = root + direction * distance;
        if (*epsilon <= 0.0 && direction < 0.0) {
            *epsilon = 0.0;
            return 1;
        }
        if (*epsilon < from->nearest)
            return 0;
        delta_here there = delta_at(from, *epsilon);
        if (direction > 0.0 ? there.upper <= target : there.lower >= target)
            return 1;
    }
    return 0;
}

/* Bounds from one plan, with about the root or log delta; 0 if they are not narrow. */
static int bounds_from(const exponential_sum *from, const job *work, double start, answer *found, double *root)
{
    double value = work->argument, slack = 32.0 * U * (1.0 + fabs(value));
    delta_here at;
    *found = (answer){.lower = -INFINITY, .upper = INFINITY};
    if (work->question == LOG_DELTA) {
        if (value < from->nearest)
            return 0;
        at = delta_at(from, value);
        *root = log(at.value);
        sum_log_delta(from, value, &found->lower, &found->upper);
    } else {
        double target = exp(value);
        *root = crossing(from, value, start, &at);
        if (!(at.value > 0.0 && isfinite(at.upper - at.lower) && at.lower > 0.5 * at.value))
            return 0;
        if (*root == 0.0 && at.upper <= target * (1.0 - slack)) {
            found->lower = found->upper = 0.0;
        } else if (!certain(from, target * (1.0 - slack), 1.0, *root, &at, &found->upper) ||
                   !certain(from, target * (1.0 + slack), -1.0, *root, &at, &found->lower)) {
            *found = (answer){.lower = -INFINITY, .upper = INFINITY};
            return 0;
        }
    }
    found->nodes = found->samples = from->nodes;
    found->evaluations = 1;
    if (!(found->upper - found->lower <= NARROW_ENOUGH * larger(1.0, fabs(found->upper))))
        return 0;
    if (work->near != NULL)
        keep_sum(work, from);
    return 1;
}

/* log E[(L - b)_+] at Z = z where L is b: delta at a = 1 + b / M, if one large place alone decides. */
static double log_delta_alone(const allocation *of, double z)
{
    double s = of->shift, jump = exp(s * z - 0.5 * s * s), value = exp(log_normal_cdf(s - z)) - jump * exp(log_normal_cdf(-z));
    return value > 0.0 ? log(value) : -INFINITY;
}

/* About the epsilon at which that is log_delta. */
static double alone(const allocation *of, double log_delta)
{
    double low = of->shift - 5.0, high = of->shift + 40.0, s = of->shift, z = low;
    for (int i = 0; i < 50; i++) {
        z = 0.5 * (low + high);
        if (log_delta_alone(of, z) > log_delta)
            low = z;
        else
            high = z;
    }
    return log1p(exp(s * z - 0.5 * s * s - log(of->places)));
}

static int joining(workspace *space, const allocation *of, const job *work, answer *found)
{
    double epsilon = work->argument, root;
    exponential_sum line = joining_line(space, of, work->question == LOG_DELTA, work->argument, &epsilon, 1.0);
    return bounds_from(&line, work, epsilon, found, &root);
}

/* By the negative axis, replanned where the root is; 0 if that does not answer. */
static int by_one_place(workspace *space, const allocation *of, const job *work, double epsilon, double expected, answer *found)
{
    jmp_buf *outer = space->declined, here;
    bookmark place = mark(space);
    volatile int settled = 0;
    volatile double planned = epsilon;
    space->declined = &here;
    for (volatile int i = 0; i < PLANS && !settled; i++) {
        double root = epsilon;
        if (setjmp(here) != 0)
            break;
        rewind_to(space, place);
        exponential_sum plan = jumps_alone(space, of, planned, expected);
        settled = bounds_from(&plan, work, planned, found, &root);
        if (!(root > planned + 0.1) || work->question == LOG_DELTA)
            break;
        planned = root;
    }
    space->declined = outer;
    rewind_to(space, place);
    return settled;
}

/* One large place first, where the axis alone answers; a line then. */
static int leaving(workspace *space, const allocation *of, const job *work, answer *found)
{
    int by_loss = work->question == LOG_DELTA;
    double epsilon = by_loss ? work->argument : alone(of, work->argument), expected = work->argument, root = epsilon;
    if (by_loss) {
        double jump = (log(larger(expm1(epsilon), 1e-300)) + log(of->places)) / of->shift + 0.5 * of->shift;
        expected = larger(log_delta_alone(of, jump), SMALLEST_LOG_DELTA_HERE);
    }
    if (by_one_place(space, of, work, epsilon, expected, found))
        return 1;
    double around = exp(1.2 * epsilon);
    bookmark place = mark(space);
    for (int i = 0; i < PLANS; i++) {
        rewind_to(space, place);
        exponential_sum plan = leaving_line(space, of, by_loss, work->argument, expected, around, &epsilon);
        if (bounds_from(&plan, work, epsilon, found, &root))
            return 1;
        if (by_loss && i == 0 && isfinite(root))
            expected = root;
        else if (!by_loss && exp(1.02 * root) > around)
            around = exp(1.2 * root);
        else
            break;
    }
    return 0;
}

int solve_one_allocation(workspace *space, const job *work, answer *found)
{
    const allocation_law *law = work->rounds == 1 ? work->whole[0].allocated : NULL;
    if (law == NULL || work->whole[0].count != 1.0 || law->products != 1 || law->factors != 1 || law->times[0] != 1.0)
        return 0;
    const allocation *of = &law->factor[0];
    if (is_gaussian(of) || of->log_probability != 0.0 || space->uncut)
        return 0;
    double least = work->question == LOG_DELTA ? 0.0 : SMALLEST_LOG_DELTA_HERE;
    if (!(work->argument >= least && (work->question == LOG_DELTA || work->argument < 0.0)))
        return 0;
    return law->reverse ? joining(space, of, work, found) : leaving(space, of, work, found);
}
