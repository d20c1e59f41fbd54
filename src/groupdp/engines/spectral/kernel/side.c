/* One side's density relative to the standard normal one, on a set of nodes, with its rounding error (S-15).
 *
 *     R(v) = sum_i p_i exp(m_i v - m_i^2 / 2),      A(u) = R(u) of the right side, B(u) = R(-u) of the left one
 */
#include "arithmetic.h"
#include "spectral.h"

#define SAFE_EXPONENT 600.0
#define SAFE_LOG_PROBABILITY -650.0
/* Below this largest shift, R - 1 is summed with expm1. */
#define SMALL_SHIFT 0.5
/* While no exponent exceeds this, |R - 1| < 1/2 and log R comes from R - 1 alone. */
#define SMALL_EXPONENT 0.4

/* Shifts 0, g, 2g, ... (to 4 U, like every shift), and no term's logarithm beyond what a product of doubles can hold:
 * powers of e^{g u} then take the place of the exponentials. */
static int evenly_spaced(const side *law, double reach)
{
    if (law->size < 3 || law->shift[0] != 0.0)
        return 0;
    double g = law->shift[1];
    for (int i = 0; i < law->size; i++) {
        double m = law->shift[i], log_p = law->log_p[i];
        if (fabs(m - i * g) > 4.0 * U * m || log_p < SAFE_LOG_PROBABILITY || log_p - 0.5 * m * m < SAFE_LOG_PROBABILITY)
            return 0;
    }
    return g * reach < SAFE_EXPONENT;
}

/* Nodes in the order in which v increases: v = u, or v = -u for the left side. */
typedef struct {
    const double *u;
    int nodes, mirrored;
} node_order;

static int place_of(const node_order *order, int j) { return order->mirrored ? order->nodes - 1 - j : j; }
static double node_at(const node_order *order, int place) { return order->mirrored ? -order->u[place] : order->u[place]; }

static void directly(workspace *space, const side *law, const node_order *order, side_table *table, double reach)
{
    int absent_too = law->shift[0] == 0.0, count = law->size - absent_too;
    const double *m = law->shift + absent_too, *p = law->p + absent_too;
    double absent = absent_too ? law->p[0] : 0.0, present = 0.0, first_plain = 0.0, second_plain = 0.0;
    for (int i = 0; i < count; i++) {
        present += p[i];
        first_plain += p[i] * m[i];
        second_plain += p[i] * m[i] * m[i];
    }
    double largest = largest_shift(law);
    int by_increments = largest < SMALL_SHIFT, tiny = largest * (reach + largest) < SMALL_EXPONENT;
    /* c_i = p_i e^{-m_i^2 / 2}, right to 12 U + 10 U m_i^2 / 2; e^{g v}, right to 8 U + 5 U g |v|, enters i times, with
     * i roundings: the i-th term carries 9 i U beyond what a term is charged below. */
    double g = law->shift[law->size > 1], *coefficient = NULL;
    if (!by_increments && evenly_spaced(law, reach)) {
        coefficient = doubles(space, count);
        for (int i = 0; i < count; i++)
            coefficient[i] = p[i] * exp(-0.5 * m[i] * m[i]);
    }
    for (int j = 0; j < order->nodes; j++) {
        double v = node_at(order, j), magnitude = fabs(v);
        double total = 0.0, first = 0.0, second = 0.0, excess = 0.0, powers = 0.0;
        if (coefficient != NULL) {
            double base = exp(g * v), power = 1.0;
            for (int i = 0; i < count; i++) {
                power *= base;
                double weighted = coefficient[i] * power;
                total += weighted;
                first += weighted * m[i];
                second += weighted * m[i] * m[i];
            }
            powers = 9.0 * first / g;
        }
        for (int i = 0; coefficient == NULL && i < count; i++) {
            double exponent = v * m[i] - 0.5 * m[i] * m[i], ratio;
            if (by_increments) {
                double increment = expm1(exponent);
                excess += increment * p[i];
                /* far below e^e = 1, 1 + expm1(e) keeps no digit of e^e */
                ratio = tiny ? increment + 1.0 : exp(exponent);
            } else {
                ratio = exp(exponent);
            }
            double weighted = p[i] * ratio;
            total += weighted;
            first += weighted * m[i];
            second += weighted * m[i] * m[i];
        }
        /* Sum of p_i e^{e_i} (m_i |v| + m_i^2 / 2): an exponent is wrong by at most 10 U of its two parts. */
        double exponents = first * magnitude + 0.5 * second, error;
        if (by_increments) {
            /* |expm1(e)| <= |e| max(1, e^e): each term's relative error is charged to the exponents' sum. */
            double plain = first_plain * magnitude + 0.5 * second_plain;
            error = U * ((count + 14.0) * (plain + exponents) + 10.0 * exponents);
        } else {
            excess = total - present;
            error = U * ((count + 14.0) * (total + present) + 10.0 * exponents + powers);
        }
        double ratio = total + absent, log_ratio;
        if (fabs(excess) < 0.5) {
            log_ratio = log1p(excess);
        } else {
            log_ratio = log(ratio);
            error = U * ((count + 16.0) * ratio + 10.0 * exponents + powers);
        }
        table->log[j] = log_ratio;
        table->mean[j] = first / ratio;
        table->log_error[j] = error / larger(ratio - error, 0.5 * ratio) + ELEMENTARY * fabs(log_ratio);
    }
}

/* What a node's entries are, from the largest term's logarithm and sums over the terms relative to it. */
static void enter(side_table *table, int place, double top, double total, double first, double error)
{
    double log_ratio = top + log(total);
    table->log[place] = log_ratio;
    table->mean[place] = first / total;
    table->log_error[place] = U * (error + 3.0 * fabs(top)) + ELEMENTARY * fabs(log_ratio);
}

/* A term this far below the largest is left out if the largest term's shift is a thousandth of any other, or more: below
 * 1e3 n e^-60 of the sum and of the mean, and those are charged n U and more. Otherwise below 1e-307. */
#define LOG_FAR -60.0
#define LOG_FARTHEST -708.0
#define NOT_FAR_BELOW 1e-3

static void logarithmically(workspace *space, const side *law, const node_order *order, side_table *table)
{
    int count = law->size;
    double *base = doubles(space, count);
    for (int i = 0; i < count; i++)
        base[i] = law->log_p[i] - 0.5 * law->shift[i] * law->shift[i];
    /* The sum, its logarithm (at most log n, to 8 U) and the distances to the top (at most log n on average). */
    double counting = count + 20.0 + 9.0 * log(count);
    for (int j = 0; j < order->nodes; j++) {
        double v = node_at(order, j), top = -INFINITY;
        int largest = 0, added = 0;
        for (int i = 0; i < count; i++) {
            double exponent = law->shift[i] * v + base[i];
            if (exponent > top) {
                top = exponent;
                largest = i;
            }
        }
        double far = law->shift[largest] >= NOT_FAR_BELOW * largest_shift(law) ? LOG_FAR : LOG_FARTHEST;
        double total = 0.0, first = 0.0, second = 0.0, logarithms = 0.0;
        for (int i = 0; i < count; i++) {
            double m = law->shift[i], distance = m * v + base[i] - top;
            if (distance < far)
                continue;
            double term = exp(distance);
            added++;
            total += term;
            first += term * m;
            second += term * m * m;
            logarithms += term * fabs(law->log_p[i]);
        }
        double exponents = (first * fabs(v) + 0.5 * second + logarithms) / total;
        enter(table, j, top, total, first, counting + 12.0 * exponents);
        spend(space, 3.0 * count + 20.0 * added);
    }
}

/* The ratios r_i of neighbouring terms at v = 0, t_i = r_i e^{g v} t_{i-1}; 0 if they do not fall, or overflow. */
static int neighbour_ratios(const side *law, double *up, double *down)
{
    double g = law->shift[1];
    for (int i = 1; i < law->size; i++) {
        double logarithm = law->log_p[i] - law->log_p[i - 1] - g * g * (i - 0.5);
        if (!(fabs(logarithm) < SAFE_EXPONENT))
            return 0;
        up[i] = law->p[i] / law->p[i - 1] * exp(-g * g * (i - 0.5));
        down[i] = 1.0 / up[i];
        if (i > 1 && !(up[i] <= up[i - 1]))
            return 0;
    }
    return 1;
}

/* Evenly spaced shifts and falling ratios: from the largest term outward, by products.
 *
 * A step's factor: the ratio is right to 15 U + 10 U g^2 (i - 1/2), e^{g v} or its inverse to 9 U + 5 U g |v|, and
 * there are two roundings. d steps from the top to m_i telescope to
 * 26 d U + 10 U |m_i^2 - m_top^2| / 2 + 5 U |m_i - m_top| |v| where the shifts are multiples of g; as they are to 5 U
 * only, and the true ones to 4 U, a square is off by 20 U of itself.
 */
static void by_products(const side *law, const node_order *order, side_table *table, const double *up,
                        const double *down)
{
    int count = law->size, top_index = 0;
    const double *m = law->shift, *log_p = law->log_p;
    double g = m[1], counting = count + 20.0 + 9.0 * log(count);
    for (int j = 0; j < order->nodes; j++) {
        int place = place_of(order, j);
        double v = node_at(order, place), base = exp(g * v), inverse = 1.0 / base;
        while (top_index < count - 1 && up[top_index + 1] * base > 1.0)
            top_index++; /* nodes increase, and with them the position of the largest term */
        double total = 1.0, first = m[top_index], second = first * first, logarithms = fabs(log_p[top_index]);
        double here = first * fabs(v) + 0.5 * second + logarithms, away = 0.0, term = 1.0;
        for (int i = top_index + 1; i < count; i++) {
            double factor = up[i] * base;
            term *= factor;
            total += term;
            first += term * m[i];
            second += term * m[i] * m[i];
            logarithms += term * fabs(log_p[i]);
            away += term * (i - top_index);
            /* Factors fall: what is left of the sum is less than this term, and of the mean less than 3 term m_i. */
            if (term < 1e-20 && factor < 0.5 && term * m[i] < 1e-20 * first)
                break;
        }
        term = 1.0;
        for (int i = top_index - 1; i >= 0; i--) {
            double factor = down[i + 1] * inverse;
            term *= factor;
            total += term;
            first += term * m[i];
            second += term * m[i] * m[i];
            logarithms += term * fabs(log_p[i]);
            away += term * (top_index - i);
            if (term < 1e-20 && factor < 0.5)
                break;
        }
        double exponents = (first * fabs(v) + 0.5 * second + logarithms) / total;
        double top = m[top_index] * v + (log_p[top_index] - 0.5 * m[top_index] * m[top_index]);
        enter(table, place, top, total, first, counting + 22.0 * exponents + 24.0 * here + 28.0 * away / total);
    }
}

side_table tabulate_side(workspace *space, const side *law, int mirrored, const double *u, int nodes)
{
    side_table table;
    node_order order = {u, nodes, mirrored};
    if (is_zero(law)) { /* R = 1, exactly: one column of zeros does for all */
        table.log = table.mean = table.log_error = doubles(space, nodes);
        for (int j = 0; j < nodes; j++)
            table.log[j] = 0.0;
        return table;
    }
    double **columns[] = {&table.log, &table.mean, &table.log_error};
    for (int i = 0; i < 3; i++)
        *columns[i] = doubles(space, nodes);
    double reach = larger(fabs(u[0]), fabs(u[nodes - 1])), largest = largest_shift(law), rarest = 0.0;
    for (int i = 0; i < law->size; i++)
        rarest = smaller(rarest, law->log_p[i]);
    if (largest * (reach + largest) <= SAFE_EXPONENT && rarest >= SAFE_LOG_PROBABILITY) {
        spend(space, 20.0 * nodes * law->size);
        directly(space, law, &order, &table, reach);
        return table;
    }
    if (evenly_spaced(law, reach)) {
        double *up = doubles(space, law->size), *down = doubles(space, law->size);
        if (neighbour_ratios(law, up, down)) {
            spend(space, 20.0 * nodes * law->size);
            by_products(law, &order, &table, up, down);
            return table;
        }
    }
    logarithmically(space, law, &order, &table);
    return table;
}

/* log R(v), the posterior mean and variance of the shift; in ordinary accuracy, to guide. */
void side_at(const side *law, double v, double *log_ratio, double *mean, double *variance)
{
    double top = -INFINITY, total = 0.0, first = 0.0, second = 0.0;
    for (int i = 0; i < law->size; i++)
        top = larger(top, law->log_p[i] + law->shift[i] * v - 0.5 * law->shift[i] * law->shift[i]);
    for (int i = 0; i < law->size; i++) {
        double m = law->shift[i], distance = law->log_p[i] + m * v - 0.5 * m * m - top;
        if (distance < -45.0)
            continue;
        double term = exp(distance);
        total += term;
        first += term * m;
        second += term * m * m;
    }
    *log_ratio = top + log(total);
    *mean = first / total;
    *variance = larger(second / total - *mean * *mean, 0.0);
}

/* Relative error of a posterior mean: that of the terms, twice, for the terms and for their sum (S-16). */
double slope_error(const side *law, double u)
{
    if (is_zero(law))
        return 0.0;
    double largest = largest_shift(law), rarest = 0.0;
    for (int i = 0; i < law->size; i++)
        rarest = larger(rarest, fabs(law->log_p[i]));
    return 4.0 * U * (24.0 * (largest * (fabs(u) + largest) + rarest) + 30.0 * law->size + 40.0);
}
