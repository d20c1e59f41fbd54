/* The spectral engine: certified bounds for one composition of rounds of pairs with coins.
 *
 *     laws.c        which laws are answered for
 *     workspace.c   memory and work of one call, and where to go when it is declined
 *     side.c        one side's density ratio on nodes, with its rounding error
 *     spread.c      how far apart the shifts are that an outcome leaves likely
 *     branch.c      G(c) = E[A^{1+c} B^{-c}] of one branch by the trapezoid rule: step, range, proved error
 *     strip.c       how large its integrand is off the real axis, where the largest shift says too much
 *     line.c        its characteristic function by nodes off the real axis, as few for high frequencies as for low ones
 *     small_loss.c  G(c) - 1 without cancellation
 *     rounds.c      a composition made ready for a given size of delta: what is too rare is left out, at a price
 *     split.c       rounds with a middling loss told from those with a small one: one contour for each number of them
 *     remainder.c   one contour for what is left beside small losses
 *     discard.c     outcomes whose loss alone exceeds epsilon, left to closed forms
 *     scan.c        K(c) on a set of tilts, and Chernoff's bounds from it
 *     saddle.c      where to cross the real axis
 *     tilted.c      one round under its tilted law: weights, losses, log G, every error bounded
 *     decay.c       how fast its characteristic function falls, for every frequency beyond a given one
 *     samples.c     the composed characteristic function on the contour's frequencies
 *     reach.c       how far the contour reaches
 *     contour.c     the sampled integral, its aliases and its truncation: certified delta(epsilon)
 *     root.c        from delta to epsilon
 *     allocation.c  E[X^w] of a random allocation: the table behind it
 *     allocation_powers.c   powers of series, for that table
 *     allocation_rays.c     the same off the real axis, for high frequencies
 *     allocation_errors.c   proved errors of its steps and ranges
 *     allocation_laplace.c  E[e^{theta X}] of an allocation whose places are cut
 *     allocation_lines.c    E[X^w] from it, where X is concentrated
 *     allocation_rare.c     places of allocations whose loss alone exceeds epsilon, left to closed forms
 *     allocation_curve.c    the law of whole places on nodes of the loss, from one round's closed forms
 *     atoms.c       rounds of finitely many losses, beside allocations
 *     allocated.c   rounds of random allocations under their tilted law
 *     allocation_samples.c  their characteristic function on the contour's frequencies
 *     one_round.c   one round in closed form
 *     one_place.c   E[e^{-lambda L}] of one place of an allocation, off the real axis
 *     one_allocation.c        one round of one allocation: epsilon and log delta from its transform alone
 *     one_allocation_lines.c  the transform on a line, of cut places where the group leaves
 *     one_allocation_jumps.c  the transform on the negative axis, where one large place decides
 *     envelope.h    fixed batches of which members are replaced or zeroed, and the files for these
 *     ways.c        the ways to epsilon and log delta
 *     answers.c     the questions, and in which order the ways are tried
 *
 * None of these knows of Python (python_*.c do). Numbers S-1, S-2, ... are those of docs/internals/numerics.md. What is beyond
 * the stated limits is declined, never answered badly.
 */
#ifndef GROUPDP_SPECTRAL_H
#define GROUPDP_SPECTRAL_H

#include <setjmp.h>
#include <stddef.h>

/* The stages of an answer, for those who want it faster. */
enum stage { PREPARE, SCAN, REACH, TILT, DECAY, PERIOD, SAMPLES, ROOT, STAGES };

/* Why a call was declined. */
enum reason {
    ANSWERED,
    NO_NUMBER,        /* an argument that is not finite */
    SHIFTS,           /* shifts outside of the range of doubles worked with */
    MEMORY,
    WORK,
    NODES,            /* too many nodes of a quadrature */
    STEPS,            /* too many steps of a contour */
    ALIASES,          /* no period short enough, or tilts beyond the limit */
    TRUNCATION,       /* the characteristic function decays too slowly: too few rounds */
    ROUNDED,          /* rounding errors too large for the error analysis */
    TOO_WIDE,         /* no narrow bounds were found */
    RARE_LOSSES,      /* the closed forms for large losses do not apply */
    CONTRADICTION,    /* the lower side is above the upper one */
    REASONS
};

/* Memory of one call, freed at once; where to go when the call is declined; and where its time goes, if asked for. */
struct chunk;
typedef struct {
    struct chunk *chunks;
    size_t allocated, chunk; /* so far, and the least that is asked of the system at a time */
    double work; /* done so far, in multiplications or so */
    int allocates; /* whether it is about random allocations, which may take longer */
    int few;       /* whether there are so few rounds that each must decay by a line off the axis (S-40) */
    int plain;     /* whether neither cuts (S-38) nor lines off the axis (S-40) are used, which far tilts may decline */
    int cuts, uncut; /* whether places of allocations were cut (S-43), and whether they are kept whole */
    int coins, coarse; /* whether allocations have a coin, and how many of its rare products are left out, 0 to 2 (S-12) */
    int far;       /* whether everything is kept, and the rounds decay by the rarest part of their tilted law */
    const struct round_law *reversed; /* rounds whose reversed loss is unlikely beyond `unlikely`, for one delta (S-14) */
    double reversed_log_delta, unlikely;
    int brief;     /* whether a long contour is declined, since there may be shorter ones (S-39) */
    int lower_tilt; /* whether a contour of allocations lies at a lower tilt, whose tables are shorter */
    jmp_buf *declined;
    enum reason reason;
    double *seconds; /* by stage, or NULL */
    enum stage stage;
    double since;
} workspace;

/* Takes over memory kept from an earlier call, if any (may be NULL), and returns what the next call may keep. */
void take(workspace *space, struct chunk *kept);
struct chunk *release(workspace *space);
void forget(struct chunk *kept);
void *allocate_or_null(workspace *space, size_t bytes);
void *allocate(workspace *space, size_t bytes);
double *doubles(workspace *space, size_t count);
void decline(workspace *space, enum reason why);
void spend(workspace *space, double work);
void begin(workspace *space, enum stage stage);
typedef struct {
    struct chunk *chunk;
    size_t used;
} bookmark;
bookmark mark(const workspace *space);
void rewind_to(workspace *space, bookmark place);

/* A law of shifts >= 0, increasing, in units of the noise. */
typedef struct {
    int size;
    const double *shift, *p, *log_p;
    double variance; /* at least that of the shift given any outcome (S-27) */
} side;

/* Outcomes kept with probability chi(u) = Phi((edge - u) / width) (S-13), less Phi((lower - u) / width) if there is a
 * lower edge (S-39). */
typedef struct {
    int thinned, has_lower;
    double lower;
    double edge, width, log_discarded;
    int exact; /* then what is discarded is known under P (eta) and under Q (zeta), to a relative error (S-14) */
    double log_eta, log_zeta, relative_error;
    int is_cut; /* outcomes beyond the cut, where chi is next to nothing, are not kept at all (S-38) */
    double cut;
} thinning;

/* A quadrature's own cut is at most this far from where it is meant to be, and half of that from a node. */
static inline double margin_of(const thinning *thin) { return thin->thinned ? thin->width : 0.25; }

/* P = sum_i a_i N(x_i, 1) with (x, a) = right against Q = sum_j b_j N(-y_j, 1) with (y, b) = left, of a coin. */
typedef struct {
    side right, left;
    double weight, log_weight; /* of the coin */
    thinning thin;
} branch;

/* What the masses of known losses may add up to above 1 (S-94). */
#define MOST_ABOVE_ONE 5e-10

/* Losses, increasing, with the logarithms of their masses under P, of which e^log_lost has no loss here (S-94). */
typedef struct {
    int size;
    const double *loss, *log_p;
    double log_lost;
} atoms;

/* R(M, s) of a group that takes part with probability p: X = 1 - p + p mean of M lognormals e^{s Z - s^2 / 2}. */
typedef struct {
    double places, shift, log_probability;
    int is_cut; /* whether outcomes with a Z_t above the cut, in any place, are left out (S-43, S-93) */
    int layered; /* whether places just below the cut are large: moments are then bounded by layers (S-92) */
    double cut, largest_tilt;
    const atoms *atoms; /* then it is a law of these losses instead; NULL otherwise */
    const struct curve *curve; /* the law on nodes of its loss, if it has been computed (S-95); NULL otherwise */
} allocation;

/* A coin over products of allocations, P against Q, or Q against P where it is reversed. Product b has factor f
 * times[b * factors + f] times. */
typedef struct {
    int factors, products, reverse;
    const allocation *factor;
    const double *times, *log_weight;
} allocation_law;

/* A coin. Branches N(mu, 1) against N(0, 1) have closed forms and are kept apart; mu = 0 tells nothing. */
typedef struct round_law {
    int branches, gaussians;
    branch *branch;
    const double *mu, *gaussian_log_weight;
    double count;
    double lost; /* probability of the branches left out (S-12) */
    const allocation_law *allocated; /* then it has no branches; NULL otherwise */
    const side *envelope;            /* likewise: members replaced or zeroed in fixed batches (envelope.h) */
} round_law;

/* The part of delta from outcomes of which some round was discarded (discard.c): p - e^eps q, and at most e^eps times
 * the remainder more than that for eps up to `farthest`; at most p at any rate (S-14). */
typedef struct {
    int exact;
    double log_p, p_error, log_q, q_error, log_remainder, farthest; /* errors are relative */
    double beyond; /* where outcomes are cut off, in widths beyond the edge */
} discarded_part;

typedef struct {
    int rounds;
    round_law *round;
    double log_budget;
    double log_dropped; /* log of what delta may lose (S-10, S-12, S-13) */
    double shift;       /* what epsilon may lose (S-11) */
    double largest_loss, mean, deviation;
    discarded_part discarded;
    int allocates, cuts, curves; /* whether there are rounds of allocations, and any with cut places, or with curves (S-95) */
} prepared;

/* Losses of allocations with a smaller deviation have cut places (S-43), or take rays (S-41). */
#define SMALL_DEVIATION 0.06

/* Whether a side is a law, and the weights of a round, or of its products of allocations, are one (S-28). */
int is_law(const side *law);
int is_coin(const round_law *law);
int is_allocation_law(const allocation_law *law);

prepared prepare(workspace *space, int rounds, const round_law *whole, double log_delta);
/* How wide the edge of what is discarded may be; narrower where middling losses are told from small ones. */
#define WIDE_EDGE 0.1
#define SPLIT_EDGE 0.06
/* The closed forms for large losses hold up to so much, relatively, beyond the epsilon that they are planned for: where
 * that is searched for, and where it is known. */
#define AHEAD 0.02
/* What has no contour is bounded for epsilons from this part of the one planned for. */
#define NEARLY 0.98
#define AT_HAND 0.001
prepared prepare_near(workspace *space, int rounds, const round_law *whole, double log_delta, double epsilon,
                      double ahead, double widest);
double largest_loss_of(const round_law *law);
double reaching(workspace *space, const branch *of, double loss);
double psi_of(const branch *of, double u, double *slope, double *error);
double log_beyond_edge(const side *law, const thinning *thin, double sign, double *relative);
/* Outcomes so many widths beyond the edge, kept with a probability below e^-131, are cut off (S-38); where delta is so
 * small that this would count, they are cut off farther away. */
#define BEYOND_THE_EDGE 16.0
double delta_of_large_losses(workspace *space, int rounds, const round_law *whole, double epsilon);
double rate_of_large_losses(workspace *space, int rounds, const round_law *whole, double epsilon);
double epsilon_of_large_losses(workspace *space, int rounds, const round_law *whole, double log_delta, double ceiling);
prepared trim(workspace *space, int rounds, const round_law *whole, double log_delta);
prepared trim_uncut(workspace *space, int rounds, const round_law *whole, double log_delta);
void discard_atoms(workspace *space, allocation *factor, double loss, double *log_q, double *log_p, double *relative,
                   double *least);
double delta_of_large_atoms(const atoms *of, double epsilon);
double log_inverse_of_atoms(const atoms *of, double c);
void beyond_cut(const allocation *of, double z, double *log_q, double *log_p, double *relative);
double variance_of_small_places(workspace *space, const allocation_law *law);
double delta_of_large_places(const allocation_law *law, double epsilon);
double unlikely_among_allocations(workspace *space, const prepared *problem);
void discard_places(workspace *space, round_law *law, double loss, double unlikely, prepared *result, double *log_eta,
                    double *log_zeta, double *relative);
void bound_discarded(const discarded_part *part, double epsilon, double *log_least, double *log_most);
thinning discard(const side *right, double width, double log_budget);
double log_normal_cdf(double t);
double log_keep(const thinning *thin, double u);
double log_keep_most(const thinning *thin, double a, double b);
double steepness(const thinning *thin, double first, double last);

/* R(v) = sum_i p_i exp(m_i v - m_i^2 / 2) of one side on nodes: v = u for the right side, -u for the left (S-15). */
typedef struct {
    double *log, *mean, *log_error; /* log R, the posterior mean of the shift, |error of log R| */
} side_table;

side_table tabulate_side(workspace *space, const side *law, int mirrored, const double *u, int nodes);
double posterior_variance(workspace *space, const side *law);
void bound_spread(workspace *space, branch *of);
void side_at(const side *law, double v, double *log, double *mean, double *variance);
double slope_error(const side *law, double u);
static inline int is_zero(const side *law) { return law->shift[law->size - 1] == 0.0; }
static inline double largest_shift(const side *law) { return law->shift[law->size - 1]; }
static inline double span_of(const side *law) { return law->shift[law->size - 1] - law->shift[0]; }

/* A branch on nodes: Psi = log A - log B, its slope, and the error of Psi. */
typedef struct {
    int nodes;
    double *u, *psi, *slope, *psi_error;
    side_table right, left;
} branch_table;

/* Cells of outcomes on which the integrand is bounded off the real axis (S-37); none where S-7 does. */
typedef struct {
    int size;
    double width, doubt; /* the relative error of a posterior mean */
    double *each;        /* the widths of the cells, NULL if they are all `width`, else their mean */
    double *edge, *log_density; /* size + 1 edges; log of a bound on phi chi in each cell */
    side_table right, left;     /* at the edges */
} strip_cells;

typedef struct {
    double tilt, strip, frequency;
    double right, left; /* how much less than 1 each side's modulus may be, relative to that on the axis */
    double right_most, left_most; /* arg R(u + iy) / y is at most this anywhere (S-7) */
} strip_line;

/* G(c) = E[chi A^{1+c} B^{-c}] by the trapezoid rule. */
typedef struct {
    const branch *of;
    double step, strip;
    strip_cells cells;
    double end; /* where a cut is, halfway between two nodes */
    branch_table table;
    double *log_weight; /* log(step phi(u) chi(u)) */
    double line; /* how far off the axis the nodes for frequencies above 0 lie (S-51); 0 if they do not */
} quadrature;

branch_table tabulate(workspace *space, const branch *of, double step, double first, int nodes);
quadrature plan(workspace *space, const branch *of, double lowest, double highest, double frequency,
                double log_tolerance, int with_identity);
double stiffness_of(const branch *of);
double widest_strip(const side *law);
double log_modulus(const side *law, double strip);
double largest_turn(const side *law, double strip);
double log_beyond(const quadrature *grid, double log_factor, double slope, double end, double direction);
/* Nodes, and products of nodes and steps, of a brief contour. */
#define BRIEF_QUADRATURE 8000
#define BRIEF_WORK 6e6
int plan_strip(workspace *space, quadrature *grid, double lowest, double highest, double frequency, double log_tolerance,
               int insists, const double *first, double *low, double *high);
strip_cells cells_between(workspace *space, const branch *of, double low, double high);
strip_line line_at(const branch *of, double tilt, double strip, double frequency);
double log_sum_over(const quadrature *grid, const strip_line *line, int first, int last, double extra);
double log_over_line(const quadrature *grid, const strip_line *line);
double log_at_end(const quadrature *grid, const strip_line *line);
void narrow_to(const quadrature *grid, const strip_line *line, double log_tolerance, double *low, double *high);
double log_strip_error(const quadrature *grid, double tilt, double frequency);
double log_strip_tails(const quadrature *grid, const strip_line *line);

/* A branch on the nodes of its line: weights phi chi A^{1+c} B^{-c} step / G and losses, both complex, with their errors. */
typedef struct {
    double *weight, *weight_imaginary, *loss, *loss_imaginary;
    double *weight_error, *loss_error; /* absolute */
} line_table;

int plan_line(quadrature *grid, double tilt, double log_tolerance, double *low, double *high);
double log_line_error(const quadrature *grid, double tilt, double log_moment);
line_table tabulate_line(workspace *space, const quadrature *grid, double tilt, double log_moment);
double normal_tail_off_axis(double x, double y, double *real, double *imaginary);
double log_error(const quadrature *grid, double tilt, double log_moment, double frequency);
double log_tails(const quadrature *grid, double tilt);
double log_tails_of_left(const quadrature *grid);
double concave_peak(const side *left, double tilt, double offset, double pull, double edge, double start);

/* G(c) - 1 without cancellation (S-23). */
void excess_moment(const quadrature *grid, double tilt, double *excess, double *error);
double identity_error(const quadrature *grid, double tilt);

/* One branch of a round under its tilted law, and the round. */
typedef struct {
    quadrature grid;
    double *weight; /* of the branch's nodes, as shares of the round */
    double weight_error; /* largest relative error of a weight as a share of the true law (S-17) */
    double share;        /* of the round, an upper bound */
    double log_moment;   /* of the branch alone, to one per cent */
} tilted_branch;

typedef struct {
    const round_law *law;
    double tilt;
    int branches, nodes; /* nodes of all branches, one after the other */
    tilted_branch *branch;
    double *weight, *loss;
    double *weight_imaginary, *loss_imaginary; /* where some nodes lie off the axis (S-51); NULL otherwise */
    double *omega, *gaussian_error; /* shares of the Gaussian branches, and their relative errors */
    double log_moment, log_moment_error, centre, variance;
    double first_order_error, second_order_error, constant_error; /* of E[D]: times s, times s^2, on its own (S-19) */
    struct tilted_allocation *allocated; /* of a round of allocations, whose nodes are its factors'; NULL otherwise */
} tilted_round;

tilted_round tilt_round(workspace *space, const round_law *law, double tilt, double frequency, double log_tolerance);

/* p_n(lambda) = E[(lambda X)^n e^{-lambda X}] / n! at log lambda = step (first + j), j = 0, 1, ... (S-29). */
typedef struct {
    const allocation *of;
    int taylor, nodes; /* n */
    double step, first, place_step, place_low, place_high, log_least, log_most; /* of X, as cut */
    double *log_count, *log_none; /* log p_n; log of P(N = 0) in one place */
    double *log_lost;             /* log of what underflow may take from p_n */
    double weight_rounding, point_rounding; /* of the quadrature over Z, in units of U (S-33) */
} allocation_table;

/* log of what the tables of a scan may be wrong by, about. */
#define LOG_COARSE_TABLE -28.0
/* The least n - w for which Stirling's series is used as it stands. */
#define SMALLEST_SHAPE 24.0
/* Of a place, up or down: e^{-z^2 / 2} and its products are doubles. */
#define FARTHEST_PLACE 36.0
/* Of the lines off the real axis in S-29 and S-30; below pi / 2. */
#define LARGEST_ANGLE 1.45
/* Up to this x, e^{-x} is a normal double, and some factors of it are; where it underflows, x^k e^{-x} / k! is below e^-525
 * for k < 64. */
#define LARGEST_POINT 700.0
#define LOG_WITHOUT_POINTS -525.0

int is_gaussian(const allocation *of);
double log_gamma(double x);
double log_factorial(int n);
allocation_table tabulate_allocation(workspace *space, const allocation *of, int n, double w_low, double w_high,
                                     double frequency, double log_tolerance);
double allocation_step_error(const allocation_table *table, double shape, double frequency);
double allocation_place_error(const allocation_table *table, double shape);
double allocation_range_error(const allocation_table *table, double w, double log_moment);
double log_left_out_above(const allocation *of, double w, double z);
double log_left_out_below(const allocation *of, double w, double z, double log_moment);
double log_rates_above(const allocation *of, double w, double shape, double step, double u);
double log_rates_below(double shape, double step, double u, double log_most);
double log_rates_beyond(double shape, double step, double u, double log_least);
double log_rates_right(const allocation_table *table, double w, double u);
void gamma_ratio(double a, double s, double *real, double *imaginary, double *size);
double count_rounding(const allocation_table *table, int j);

/* Where the terms of a sum over Z matter: its largest term, and both ends. */
typedef struct {
    int top, low, high;
} window;

window moved(const window *at, int fine);
double windowed(const double *weight, const double *f, int places, window *at);
void raise_power(double *restrict f, const double *restrict x, double k, int points);
double *place_weights(workspace *space, allocation_table *table, double step, double fine, double w_low, double w_high,
                      double log_tolerance, int *places, int *low);

double power_by_recurrence(const double *b, const double *multiple, int n, double rho, double *g, double *least);
double power_by_squaring(workspace *space, const double *b, double places, int n, double rho, double *scale, double *log_doubt);
void turned_recurrence(const double *real, const double *imaginary, const double *multiple, int n, double rho, double *g,
                       double *h);
void turned_squaring(workspace *space, const double *real, const double *imaginary, double places, int n, double rho,
                     double *g, double *h);

/* e^{-w u} q_n(u) times the step and e^{-top} on the nodes of a ray, for frequencies from `start` to `end` (S-41). */
typedef struct {
    double angle, start, end, step, top, rounding, log_underflow;
    double error, phase_error; /* relative to the sum of the terms' sizes; the second times the frequency */
    int nodes;
    double *u, *real, *imaginary;
} ray;

/* log E[e^{theta X}; cut] for |theta| <= reach: moments of x up to Z = near, and nodes beyond (S-44). */
typedef struct {
    const allocation *of;
    double reach, near, absent, rest; /* `rest` bounds what is left out of one place's, `absent` is 1 - p */
    int terms, nodes;
    double *term, *doubt; /* and what they may be wrong by */
    double *x, *x_turned, *weight, *weight_turned, *wrong, *wrong_turned; /* complex; the last times |theta| */
} transform;

double log_cut_off(const allocation *of, double z);
void cut_places(workspace *space, round_law *law, prepared *result, double log_delta);
double allocation_jump(const allocation *of, double z);
double log_inverse_moment(const allocation *of, double c);
transform transform_on_axis(workspace *space, const allocation *of, double reach);
transform transform_off_axis(workspace *space, const allocation *of, double real, double reach, double log_tolerance);
void transform_at(const transform *at, double re, double im, double *log_modulus, double *angle, double *error);
void transform_slope(const transform *at, double theta, double *first, double *second);

/* theta^{-a} V on the nodes theta + i step j, relative to the first, and sums over them (S-45). */
typedef struct {
    double shape, theta, step, centre, total, alias, relative, log_fall;
    int nodes;
    double *log_term, *log_distance, *angle, *phase, *error;
} line;

/* One of M places on a line off the real axis of Z (S-80). */
typedef struct {
    const allocation *of;
    double gamma, strip, step;
    int points;
    double *weight, *weight_turned, *unit, *wrong;
    double rule, outside, below; /* what the step and the range may cost */
} place_line;

typedef struct {
    double psi, psi_turned, psi_error; /* of 1 - phi */
    double phi, phi_turned, phi_error;
} place_value;

place_line line_of_place(workspace *space, const allocation *of, double gamma, double strip, double low, double high,
                         double log_tolerance);
place_value place_at(const place_line *at, double size, double angle);
void log_place_at(const place_line *at, double size, double angle, double *log_modulus, double *turn, double *error);

/* delta of one allocation as a sum of exponentials: with w = sign (e^{sign eps} - 1) and z_j = along_j + i across_j,
 *
 *     delta(eps) = e^{log_scale - tilt w} sum_j Re((real_j + i imaginary_j) e^{-(z_j - tilt) w}) (times e^eps if sign < 0)
 *
 * but for what is bounded for each eps (S-81 to S-86). */
typedef struct {
    const allocation *of;
    double sign, base, tilt, log_scale, scale_error;
    int nodes;
    double *along, *across, *real, *imaginary;
    double *error; /* of each coefficient, on the negative axis; NULL otherwise */
    double doubt, places, turns; /* bounds on the sum of the coefficients' errors, of |coefficient|, and of that times across */
    double period, first_alias, truncation; /* of a line: the last as a share of e^{log_scale - tilt w} */
    int asides;
    const double *aside, *log_aside; /* tilts with bounds on the aliases beyond, but for e^{-aside w} */
    double cut;                      /* of the places; INFINITY if they are whole */
    int pulls;
    const double *pull, *log_pull;   /* tilts with bounds on E[e^{-pull X'}] / (e pull), X' all places but one (S-83) */
    double nearest, left_out;        /* on the negative axis: for epsilons from `nearest` on, but for `left_out` */
} exponential_sum;

exponential_sum joining_line(workspace *space, const allocation *of, int by_loss, double value, double *epsilon, double share);
void sum_delta(const exponential_sum *from, double epsilon, double *lower, double *upper);
exponential_sum leaving_line(workspace *space, const allocation *whole, int by_loss, double value, double target, double around,
                             double *epsilon);
exponential_sum jumps_alone(workspace *space, const allocation *of, double epsilon, double log_delta);
double jump_of_place(double s, double rho, double *error);
double log_jumps_beside(const allocation *of, double a, double r, double turn, int k);
double log_jumps_below(const allocation *of, double r, double turn);
double log_far_aliases(const exponential_sum *at, double w);
double log_far_out(const place_line *at, double c, double last, double y, double log_edge, double jump);
double log_short_of(const exponential_sum *from, double w);

/* One allocation under its tilted law: log lambda on nodes, with weights, and what undoes Gamma's part (S-34); a Gaussian
 * has no nodes. */
typedef struct {
    tilted_round of;
    double shape, sign, mean, loss_variance, rate; /* |phi(s)| <= e^{-s^2 rate} (S-35) */
    int rays; /* for frequencies above 0, if any; the nodes are then for the frequency 0 alone */
    ray *ray;
    double log_total;
    const line *line; /* in place of both where places are cut; NULL otherwise */
    double log_floor; /* |phi(s)| <= e^{-s^2 rate} + e^{log_floor} / s then (S-46) */
    const struct curve *curve; /* in place of all of these; its weights are signed, and log_total is that of the lognormal part */
    double relative;           /* then the error of G */
} tilted_factor;

/* Of a group that joins: step times the hockey stick of one allocation, less that of a lognormal variable, at losses
 * step (first + j) (S-95). */
typedef struct curve {
    const allocation *of;
    int nodes, cells;
    double step, first, square, most_tilt; /* `square` is the lognormal's log-variance */
    double *value, *doubt;
    double low, log_low, high; /* what is beyond the ends (S-96) */
    double *cell_end, *cell_log;
} curve;

curve *curve_of(workspace *space, const allocation *of, double most_tilt, double frequency, double typical);
tilted_factor tilt_curve(workspace *space, const curve *at, double c, int samples);
double log_call(const allocation *of, double a);
double log_curve_ends(const curve *at, double c);
void attach_curves(workspace *space, prepared *problem, double log_delta);

tilted_factor tilt_concentrated(const transform *at, double c);
tilted_factor tilt_atoms(workspace *space, const atoms *of, double c, int samples);
tilted_factor tilt_layered(workspace *space, const allocation *of, double c);
void add_line(workspace *space, const allocation *of, double c, double frequency, double log_tolerance,
              tilted_factor *factor);
void sample_line(const tilted_factor *factor, double s, double *real, double *imaginary, double *error);
double log_factor_decay(const tilted_factor *factor, double s);

double log_ray_growth(double a, double s, double angle);
double ray_step_error(double a, double s, double angle, double step);
double ray_place_error(const allocation *of, double a, double angle, double step);
void add_rays(workspace *space, const allocation *of, int n, double w, double frequency, double log_tolerance,
              tilted_factor *factor);
void sample_rays(workspace *space, const tilted_factor *factor, double s, double *real, double *imaginary, double *error);

/* A round of allocations under its tilted law. */
typedef struct tilted_allocation {
    tilted_factor *factor;
    double *share, *mu, *log_share; /* of the products; mu^2 is the rate of decay (S-35) */
    double share_error, mean, variance;
} tilted_allocation;

typedef struct {
    allocation_table *table; /* of every factor; of a Gaussian without nodes */
    transform *axis;         /* of every factor whose places are cut */
} allocation_scan;

tilted_factor tilt_factor(workspace *space, const allocation_table *table, int reverse, double c, double frequency);
tilted_round tilt_allocations(workspace *space, const round_law *law, double c, double frequency, double slowness,
                              double log_tolerance);
allocation_scan scan_allocations(workspace *space, const round_law *law, double smallest, double largest);
void allocation_moment(workspace *space, const allocation_scan *tables, const round_law *law, double c, double *log,
                       double *upper, double *mean, double *variance);
double allocation_mu(const allocation_law *law, int product);
double log_second_moment(const allocation_law *law, int product);
double allocation_variance(const allocation_law *law);
double largest_allocation_tilt(const allocation_law *law, double largest);

/* |phi(s)| <= sum of e^{log_mass - s rate} of one branch, by a line off the real axis (S-40). */
typedef struct {
    int entries;
    double *log_mass, *rate;
} decay_line;

#define LINES 6

/* |phi(s)| for every frequency beyond one (S-22). */
typedef struct {
    int rectangles, gaussians;
    double *width, *mass;
    const double *mu;
    double *log_share; /* of the Gaussian branches, an upper bound */
    double on_grids;   /* the share of all others */
    double count;
    double small; /* the share of small losses, which it is not about (S-50); 0 otherwise */
    int branches;
    const double *branch_share; /* upper bounds */
    decay_line *line;           /* LINES of each branch, without entries where there are none; or NULL */
    const allocation_law *allocated; /* then the products decay as their factors do, if those are given */
    const tilted_factor *factor;
} decay;

decay_line line_decay(workspace *space, const tilted_branch *part, double c, double strip);
void minorant(workspace *space, const tilted_branch *part, double c, int caution, double *width, double *height);
decay certify(workspace *space, const tilted_round *tilted, int rectangles, int caution);
void add_lines(workspace *space, const tilted_round *tilted, decay *bound);
double log_decay(const decay *bound, double frequency);
double log_decay_of_all(const decay *decays, int rounds, double frequency, double level);

/* Lines are added where the rectangles have a contour reach so many times farther than a Gaussian's; no effect on
 * validity. */
#define LINES_BEYOND 40.0

/* The smallest tilt considered, as a share of the largest, and how many there may be. */
#define SMALLEST_SHARE 3e-5
#define MOST_TILTS 128

/* log of a moment, an upper bound on it, and mean and variance of the loss under the tilted law. */
typedef struct {
    double log, upper, mean, variance;
} moment;

/* K(c) on a set of tilts. */
typedef struct {
    int size, room;
    double *tilt, *k, *mean, *variance;
    double *level; /* upper bound on log kappa + K: delta(eps) <= e^{level - tilt eps} (S-5, S-24) */
    double above;  /* log of a bound on delta anywhere: 0 but for known losses (S-94) */
} scan;

typedef struct {
    const prepared *problem;
    quadrature **grids;               /* of every branch of every round */
    double **psi_doubt, **weight_size; /* of each grid: largest error of Psi, largest |log weight| */
    allocation_scan *allocated;        /* of every round of allocations */
    double largest;
    int limited; /* no tilt beyond the largest is of use */
    int lowered; /* the tilts were chosen anew, lower */
    struct parts_scan *parts; /* whose moments it takes, part i so many times, instead of its own; NULL otherwise */
    const double *times;
} scanner;

/* Moments of rounds that are composed in many ways (S-39), at the tilts asked for so far. */
typedef struct parts_scan {
    prepared problem; /* each part a round */
    scanner by;
    int size;
    double *tilt;
    moment *at; /* of every part, tilt by tilt */
} parts_scan;

typedef struct {
    double tilt, epsilon, log_delta, deviation; /* of the loss under the tilted law */
    scan found;
    scanner by;
    int exploded; /* with allocations: whether K exceeds that of a Gaussian there */
} saddle;

/* The saddle-point approximation with the saddle at one tilt of a scan: its epsilon, log delta and curvature. */
typedef struct {
    double epsilon, log_delta, curvature;
} approximation;

void loss_scale(workspace *space, prepared *problem);
saddle start_scan(workspace *space, const prepared *problem, double largest);
void scan_parts(workspace *space, parts_scan *parts, double largest);
saddle start_scan_of_parts(workspace *space, parts_scan *parts, const double *times);
saddle saddle_of_parts(workspace *space, parts_scan *parts, const double *times, double epsilon, double expected);
double log_chernoff_of_parts(const parts_scan *parts, const double *times, const int *with_next, double epsilon);
approximation approximate(const scan *found, int i);
int add_tilt(workspace *space, const scanner *by, scan *found, double tilt);
saddle saddle_for_delta(workspace *space, const prepared *problem, double log_delta);
saddle saddle_alone_for_delta(workspace *space, const prepared *problem, double log_delta);
saddle saddle_for_epsilon(workspace *space, const prepared *problem, double epsilon);
/* Where the tilt wanted should be, and the deviation of the tilted loss; 0 where they are unknown; only guides. */
typedef struct {
    double tilt, deviation;
} near_tilt;
saddle saddle_nearby(workspace *space, const prepared *problem, double epsilon, near_tilt expected);
saddle saddle_far_out(workspace *space, const prepared *problem, double epsilon);
void extend(workspace *space, saddle *at, const double *multiples, int count);
void extend_around(workspace *space, saddle *at);
double interpolated_variance(const scan *found, double tilt);
double epsilon_ceiling(const scan *found, double log_delta);
scan scan_at(workspace *space, const prepared *problem, const double *tilts, int count);

/* The sampled contour. */
typedef struct contour {
    double tilt, log_scale, log_scale_error, period, step;
    int samples, nodes;
    double *frequency, *real, *imaginary; /* e^{K(c + is) - K(c) - i s centre} */
    double *kernel_real, *kernel_imaginary; /* 1 / (z (1 + z)) */
    double centre, centre_size, log_truncation;
    double error_plain, error_angle, error_frequency; /* sums over the samples behind the error of a sum */
    scan found;
    double *alias; /* log of 1 / (e^{|c' - c| Y} - 1) for each tilt c' of the scan */
    const struct contour *next; /* of a sum of several (S-39), with the number of ways to choose its rounds */
    double log_count, count_error;
    double log_rest, rest_from; /* log of a bound on what has no contour, for epsilons from `rest_from` on */
} contour;

/* A composition of the rounds of a problem, round i so many times, with a contour through its saddle. */
typedef struct {
    saddle *at;
    const double *times;
    contour path;
    double reach, log_bound;
    decay *decays; /* of the rounds that it has */
    int rounds;
} sampled_term;

void sample_curve(workspace *space, const tilted_factor *factor, const contour *path, double *real, double *imaginary,
                  double *log_error_of, double *log_largest);
void sample_round(workspace *space, const tilted_round *tilted, const contour *path, double *real, double *imaginary);
void add_characteristic(const tilted_round *tilted, double count, int rounds, const double *real, const double *imaginary,
                        contour *path, double *log_error_of, double *log_largest);
void add_allocations(workspace *space, const tilted_round *tilted, int rounds, contour *path, double *log_error_of,
                     double *log_largest);
void sample_nodes(workspace *space, const tilted_round *tilted, const contour *path, double *d, double *e);
void finish_samples(workspace *space, contour *path, const double *log_error_of, const double *log_largest);
double choose_truncation(const decay *decays, int rounds, double reach, double goal);
double expected_reach(workspace *space, const saddle *at, double reach, double log_planned);
double reach_of_terms(workspace *space, const prepared *problem, const tilted_round *tilted, decay *decays,
                      double log_planned, sampled_term *term, int terms);
contour build(workspace *space, const prepared *problem, saddle *at, double log_planned);
contour build_remainder(workspace *space, const prepared *problem, saddle *at, double log_planned);
/* A contour of what its rounds leave beside their small losses, the first `small` branches of each (S-50); all if that is
 * NULL. */
contour build_beside(workspace *space, const prepared *problem, saddle *at, double log_planned, const int *small);
/* Contours of terms with one tilt, from the same samples of their rounds. */
void build_terms(workspace *space, const prepared *problem, sampled_term *term, int terms, double log_planned,
                 const int *small);
double log_chernoff(const scan *found, double epsilon);
void subtract_small(workspace *space, const tilted_round *tilted, const int *small, int rounds, contour *path);
contour build_split(workspace *space, prepared *problem, double epsilon, double log_delta, double log_planned);
void contour_log_delta(const contour *path, double epsilon, double *lower, double *upper);
void contour_slope(const contour *path, double epsilon, double *value, double *slope);
double log_alias(const scan *found, double tilt, double epsilon, double period, const double *series);

/* Errors planned, relative to delta: those of an answer, and those of a bound that is only compared (1e-14, 1e-3). */
#define LOG_FINE -32.2361913
/* The same with allocations, whose samples have rounding errors of 1e-11. */
#define LOG_ALLOCATED -27.0
#define LOG_COARSE -6.9
/* A sum of terms that is only to say where the root is, by their saddle-point approximations. */
#define LOG_GUIDE -5.0
/* The same where large losses are left to closed forms, whose own errors are 1e-12. */
#define LOG_NEAR -27.0
/* The most that is planned for, however little of it reaches epsilon. */
#define LOG_ROUGH -18.0
/* An answer is given if it is this narrow, relative to itself. */
#define NARROW 1e-9

/* The answers. */
typedef struct {
    double lower, upper, root; /* the root of the sum itself, between them; only guides */
    int nodes, samples, evaluations;
} answer;

void corrected(const prepared *problem, const contour *path, double epsilon, double *lower, double *upper);
void uncorrected(const prepared *problem, const contour *path, double epsilon, double *value, double *slope);
void enclose_root(workspace *space, const prepared *problem, const contour *path, double start, double target,
                  answer *result);
int certified_epsilon(workspace *space, const prepared *problem, saddle *at, double log_delta, answer *result);
int epsilon_next_to_zero(workspace *space, const prepared *problem, double log_delta, answer *result);
/* As a whole; with large losses left to closed forms (S-14); with middling ones told from small ones as well (S-39). */
enum way { WHOLE, NEAR, SPLIT };
/* Where the root is, to a few parts in a thousand, and -d log delta / d epsilon there, if a coarse contour has found it. */
typedef struct {
    double epsilon, rate;
} near_root;

answer search_epsilon(workspace *space, int rounds, const round_law *whole, double log_delta, double start,
                      double ceiling, enum way way, int at_least, near_root *nearly);
contour fine_contour(workspace *space, const prepared *problem, saddle *at);
contour search_contour(workspace *space, int rounds, const round_law *whole, double epsilon, double ahead, enum way way,
                       prepared *problem);
int heavy_tailed(const prepared *problem, const saddle *at);
double chernoff_ceiling(workspace *space, const prepared *problem, const scan *found, double log_delta);
double coarse_ceiling(workspace *space, const prepared *problem, saddle *at, double log_delta);

/* A contour planned for one epsilon, good for many evaluations near it. */
typedef struct {
    int planned, exchanged; /* whether there is one, and for P and Q exchanged, at -epsilon */
    prepared problem;       /* without its rounds */
    contour path;
    int by_sum; /* then it is the transform of one allocation (S-81 to S-86), for epsilons from 0 on */
    exponential_sum sum;
} neighbourhood;

enum question { EPSILON, LOG_DELTA, CEILING };
typedef struct {
    enum question question;
    double argument, enough;
    int rounds;
    round_law *whole;
    answer found;
    neighbourhood *near; /* for the contour of the narrowest bounds on log delta, in memory of its own; may be NULL */
    workspace *keep;
} job;

/* Bounds that are not narrow are given if they are this narrow, relative to max(1, |answer|); wider ones are declined. */
#define ACCEPTABLE 1e-6

/* What one way of answering leaves for the next. */
typedef struct {
    job *work;
    int settled, heavy, scanned, insists, roughly, last;
    enum way way;
    const prepared *problem;
    saddle *at;
    double start, ceiling;
    near_root nearly;
    answer best;
} course;

typedef void way_of_answering(workspace *, course *);
int attempt(workspace *space, way_of_answering *way, course *along);
int acceptable(const answer *found, double most);
void epsilon_directly(workspace *space, course *along);
void epsilon_by_search(workspace *space, course *along);
void epsilon_by_curves(workspace *space, course *along);
void ceiling_by_chernoff(workspace *space, course *along);
void log_delta_directly(workspace *space, course *along);
void log_delta_by_search(workspace *space, course *along);
void log_delta_far_out(workspace *space, course *along);
void log_delta_beside_small(workspace *space, course *along);

double log_from_exchanged(double epsilon, double log_exchanged, double direction);

/* 1 if one round has a closed form (S-71). */
int solve_one_round(workspace *space, const job *work, answer *found);
/* 1 if it is one round of one allocation, and bounds are narrow (S-81 to S-86). */
int solve_one_allocation(workspace *space, const job *work, answer *found);
void sum_log_delta(const exponential_sum *from, double epsilon, double *lower, double *upper);
void sum_slope(const exponential_sum *from, double epsilon, double *value, double *slope);
double *kept_doubles(workspace *keep, const double *source, int count);
/* 1 if it is answered; 0 otherwise, with the reason in the workspace. */
int solve(workspace *space, job *work);

/* 1, or 0 if it is declined, or -1 if delta is 0 there. Everything that it needs later is in `keep`. */
int neighbourhood_of(workspace *space, workspace *keep, const job *work, neighbourhood *found);
void keep_contour(const job *work, const prepared *problem, const contour *path);
void neighbourhood_log_delta(const neighbourhood *at, double epsilon, double *lower, double *upper);
void neighbourhood_slope(const neighbourhood *at, double epsilon, double *value, double *slope);

round_law *exchanged(workspace *space, const job *work);

#endif
