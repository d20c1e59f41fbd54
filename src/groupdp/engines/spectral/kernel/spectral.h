/* The spectral engine's common case, compiled: one direction of one composition, from its mixtures to bounds.
 *
 * File by file this follows the Python modules of the same names one directory up, with the same inequalities (only
 * discard.c has no counterpart there); the sections cited are those of docs/numerics.md. What is unusual (bounds that
 * are not narrow, sizes beyond the limits) is declined, and the Python engine answers instead.
 */
#ifndef GROUPDP_SPECTRAL_H
#define GROUPDP_SPECTRAL_H

#include <setjmp.h>
#include <stddef.h>

enum direction { REMOVE, ADD };

/* The stages of an answer, for those who want it faster. */
enum stage { PREPARE, SCAN, REACH, TILT, DECAY, PERIOD, SAMPLES, ROOT, STAGES };

/* Memory of one call, freed at once; where to go when the call is declined; and where its time goes, if asked for. */
struct chunk;
typedef struct {
    struct chunk *chunks;
    size_t allocated;
    double work; /* done so far, in multiplications or so */
    jmp_buf declined;
    double *seconds; /* by stage, or NULL */
    enum stage stage;
    double since;
} workspace;

void take(workspace *space);
void *allocate_or_null(workspace *space, size_t bytes);
void *allocate(workspace *space, size_t bytes);
double *doubles(workspace *space, size_t count);
void decline(workspace *space);
void spend(workspace *space, double work);
void release(workspace *space);
void begin(workspace *space, enum stage stage);
typedef struct {
    struct chunk *chunk;
    size_t used;
} bookmark;
bookmark mark(const workspace *space);
void rewind_to(workspace *space, bookmark place);

/* One round in units of its noise (rounds.py), with outcomes too rare to matter discarded (thinning.py). */
typedef struct {
    int thinned;
    double edge, width, log_discarded;
    int exact; /* then what is discarded is known: under P (eta) and under Q (zeta), to a relative error */
    double eta, zeta, relative_error;
} thinning;

typedef struct {
    int size; /* components: shifts m increasing, probabilities p */
    const double *m, *p, *log_p;
    double count, log_dropped;
    thinning thin;
} round_law;

/* The part of delta from outcomes of which some round was discarded (discard.c): p - e^eps q, and at most e^eps times
 * the remainder more than that for eps up to `farthest`; at most p at any rate. */
typedef struct {
    int exact;
    double p, p_error, q, q_error, remainder, farthest;
} discarded_part;

typedef struct {
    int phases;
    round_law *rounds;
    enum direction direction;
    double log_budget, log_dropped, largest_loss, mean, deviation;
    discarded_part discarded;
} prepared;

prepared prepare(workspace *space, int phases, const round_law *whole, enum direction direction, double log_delta);
prepared prepare_near(workspace *space, int phases, const round_law *whole, double log_delta, double epsilon);
prepared trim(workspace *space, int phases, const round_law *whole, enum direction direction, double log_delta);
void bound_discarded(const discarded_part *part, double epsilon, double *least, double *most);
double log_keep(const thinning *thin, double u);
double steepness(const thinning *thin, double u);

/* R(u) = sum_i p_i exp(m_i u - m_i^2 / 2) on nodes, with its rounding error (ratio.py). */
typedef struct {
    int nodes;
    double *u, *psi, *slope, *excess, *psi_error, *excess_error;
} ratio_table;

ratio_table tabulate(workspace *space, const round_law *law, double step, double first, int nodes);

/* G(a) = E[R^a] by the trapezoid rule (moments.py). */
typedef struct {
    const round_law *law;
    double step, strip;
    ratio_table table;
    double *log_weight; /* log(step phi(u) chi(u)) */
} quadrature;

quadrature plan(workspace *space, const round_law *law, double lowest, double highest, double frequency,
                double log_tolerance, int with_identity);
double log_error(const quadrature *grid, double exponent, double log_moment, double frequency);
double log_tails(const quadrature *grid, double exponent);
double slope_error(const round_law *law, double u);

/* G(a) - 1 without cancellation (small_loss.py). */
void excess_moment(const quadrature *grid, enum direction direction, double tilt, double *excess, double *error);
double identity_error(const quadrature *grid);

/* One round under its tilted law (tilted.py). */
typedef struct {
    const round_law *law;
    double exponent, step;
    ratio_table table;
    double *weight, *loss;
    double log_moment, log_moment_error, centre, variance, log_quadrature_error, first_order_error;
    double weight_error; /* largest relative error of a weight as a share of the true G(a) */
} tilted_round;

tilted_round tilt_round(workspace *space, const round_law *law, enum direction direction, double tilt,
                        double frequency, double log_tolerance);

/* |phi(s)| for every frequency beyond one (decay.py). */
typedef struct {
    int rectangles;
    double *width, *mass;
    double rounds;
} decay;

decay certify(workspace *space, const tilted_round *tilted, int rectangles, int caution);
double log_decay(const decay *bound, double frequency);

/* K(c) on a set of tilts (saddle.py). */
typedef struct {
    int size, room;
    double *tilt, *k, *mean, *variance;
    double *level; /* upper bound on log kappa + K: delta(eps) <= e^{level - tilt eps} */
} scan;

typedef struct {
    const prepared *problem;
    quadrature *grids;
    double *psi_doubt, *weight_size; /* of each grid: largest error of Psi, largest |log weight| */
    double largest;
} scanner;

typedef struct {
    double tilt, epsilon, log_delta, deviation; /* of the loss under the tilted law */
    scan found;
    scanner by;
} saddle;

void loss_scale(workspace *space, prepared *problem);
saddle saddle_for_delta(workspace *space, const prepared *problem, double log_delta);
saddle saddle_for_epsilon(workspace *space, const prepared *problem, double epsilon);
void extend(workspace *space, saddle *at, const double *multiples, int count);
double epsilon_ceiling(const scan *found, double log_delta);

/* The sampled contour (contour.py). */
typedef struct {
    double tilt, log_scale, log_scale_error, period, step;
    int samples, nodes;
    double *frequency, *real, *imaginary, *sample_error; /* e^{K(c + is) - K(c) - i s centre} */
    double *kernel_real, *kernel_imaginary;              /* 1 / (z (1 + z)) */
    double centre, centre_size, log_truncation;
    double error_plain, error_angle, error_frequency; /* sums over the samples behind the error of a sum */
    const scan *found;
    double *alias; /* log of 1 / (e^{|c' - c| Y} - 1) for each tilt c' of the scan */
} contour;

void add_characteristic(workspace *space, const tilted_round *tilted, int phases, contour *path, double *log_error_of,
                        double *log_largest);
void finish_samples(workspace *space, contour *path, const double *log_error_of, const double *log_largest);
contour build(workspace *space, const prepared *problem, saddle *at, double log_planned);
void contour_log_delta(const contour *path, double epsilon, double *lower, double *upper);
void contour_slope(const contour *path, double epsilon, double *value, double *slope);

/* An answer is given if it is this narrow, relative to itself. */
#define NARROW 1e-9

/* The answers (engine.py). */
typedef struct {
    double lower, upper;
    int nodes, samples, evaluations;
} answer;

int certified_epsilon(workspace *space, const prepared *problem, saddle *at, double log_delta, answer *result);
answer search_epsilon(workspace *space, int phases, const round_law *whole, double log_delta, double start,
                      double ceiling);
answer certified_log_delta(workspace *space, const prepared *problem, saddle *at, double epsilon, double tolerance);
answer search_log_delta(workspace *space, int phases, const round_law *whole, double epsilon);
int heavy_tailed(const prepared *problem, const saddle *at);
double chernoff_ceiling(workspace *space, const prepared *problem, const scan *found, double log_delta);
double coarse_ceiling(workspace *space, const prepared *problem, saddle *at, double log_delta);

#endif
