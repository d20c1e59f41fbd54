/* Rounds of fixed batches of which members are replaced or zeroed (pairs.py, SubstitutionEnvelope), run alone.
 *
 *     envelope_law.c       the loss of an outcome, and which components are active where
 *     envelope_table.c     Gauss and Legendre's rule for its moments, with proved errors
 *     envelope_decay.c     how fast its characteristic function falls
 *     envelope_round.c     one round in closed form
 *     fourier.c            sums of exponentials at many frequencies
 *     envelope_contour.c   the sampled integral: certified delta(epsilon)
 *     envelope_plan.c      where it is sampled: tilt, period, reach
 *     envelope.c           the questions
 */
#ifndef GROUPDP_ENVELOPE_H
#define GROUPDP_ENVELOPE_H

#include "spectral.h"

/* Outcomes u from `low` to `high` of the components that are active together (component 0 among them), or of one that is
 * not and has its own loss (S-110). */
typedef struct {
    double low, high, weight, log_weight, top; /* top: the largest shift */
    double sway, nearly;                       /* of components that are nearly active, and the largest of their shifts (S-110) */
    int own;                                   /* index of the component with its own loss, or -1 */
    const unsigned char *active;
} arc;

/* Where component i starts or ceases to be active, at u; the arcs of active components before and after. */
typedef struct {
    double u;
    int component, enters, before, after;
} event;

/* The kept components; P and Q are sub-probabilities, with an atom at loss 0. */
typedef struct {
    int size; /* of those with a shift, increasing */
    const double *h, *log_h, *mu;
    double h0, log_h0, log_lost, atom, first, end;
    int arcs, events;
    arc *arc;
    event *event;
} envelope;

envelope envelope_of(workspace *space, const side *law, double times, double log_delta);
double loss_on(const envelope *of, const arc *on, double u, double *mean);
double loss_and_active(const envelope *of, double u, unsigned char *active, double *mean);
double outcome_of_loss(const envelope *of, const arc *on, double loss);
double doubt_of_loss(const arc *on, int size, double loss, double mean, double u);

/* A part of an arc with its rule: small losses (zone 0), large ones (2), beyond the contour (4), or in between (1 and 3). */
enum zone { SMALL, PARTLY_SMALL, LARGE, PARTLY_BEYOND, BEYOND };

/* Losses below `first` are small, from `last` to `near` large, from `far` on beyond; none is small if last = 0. */
typedef struct {
    double first, last, near, far;
} borders;

typedef struct {
    const arc *on;
    double low, high, loss_low, loss_high, mean_low, mean_high;
    enum zone zone;
    int skipped; /* it has no nodes: all of its mass counts as an error */
} panel;

/* Losses above 0, each with the logarithm of its mass under Q and the shares of it that are large, and beyond; and their
 * mirror images, which are small, or large if none is small. */
typedef struct {
    const envelope *of;
    borders at;
    int panels, points, room;
    panel *panel;
    double *loss, *log_mass, *small, *large, *beyond;
    double level;               /* of the largest integrand, about */
    double *doubt;               /* of each loss */
    double *split;               /* what its shares may be wrong by */
    double weight_error;         /* of any mass, relatively */
} envelope_table;

#define RULE 16
#define MOST_PANELS 20000

/* The errors of the rule, as logarithms, for each panel. */
typedef struct {
    double small, large, beyond;
} rule_goals;

envelope_table tabulate_envelope(workspace *space, const envelope *of, borders at, double c, double frequency, rule_goals goal);
double log_beyond_error(const envelope_table *at, int under_q);
void masses_beyond(const envelope_table *at, double *log_p, double *log_q);
double log_split(const envelope_table *at, enum zone border, double c);
void rule_errors(const envelope_table *at, double c, double frequency, double *log_small, double *log_large);
void envelope_moments(const envelope_table *at, double c, double *log_small, double *log_large);

/* Jumps of the density of the large losses and of its derivatives, and integrals of the first, second, fourth and sixth of
 * these, times e^log_scale (S-113). */
typedef struct {
    double log_scale, jump[6], variation[4];
} envelope_decay;

double decayed(const envelope_decay *by, double s);
envelope_decay decay_of(const envelope_table *at, double c);

double one_envelope_round(const envelope *of, double epsilon, double *error, double *rate);

/* sum_n weight_n e^{2 pi i j position_n} for j = 0 .. samples, two weights at once: the first in `real`, ... (S-114). Returns a
 * bound on their errors, for each unit of both sums of weights. */
double exponential_sums(workspace *space, int points, const double *position, const double *one, const double *other,
                        int samples, double *real, double *imaginary, double *other_real, double *other_imaginary);
#define FOURIER_ERROR 3e-13

/* sum_{j >= order} (T choose j) g^{T-j} f^j for g, f >= 0. */
double binomial_rest(double g, double f, double times, int order);

/* delta(eps) = e^{log_scale - tilt eps} sum_j Re(coefficient_j e^{-i j step eps}), but for what is bounded (S-111, S-112). */
typedef struct {
    const envelope *of;
    double times, tilt, step, period, log_scale, scale_error;
    int order, samples, nodes;
    double *real, *imaginary;
    double error, moduli, moduli_by_frequency; /* of the sum; of all coefficients; the same times their frequencies */
    double log_truncation;
    double aside[2], log_aside[2]; /* tilts on either side, and log kappa + log moment there */
    double most;                   /* no loss is larger */
    double log_whole;                /* log of the mass of what the contour is about */
    double log_rest, rest_from;      /* of small losses alone, for epsilons from `rest_from` on */
    double log_lost;
    double p_beyond, q_beyond, p_error, q_error; /* of the outcomes that are not on the contour (S-116) */
    double rest_beyond, until;               /* what their part may be more, over e^eps, up to this epsilon */
} envelope_contour;

typedef struct {
    double epsilon, log_delta, tilt, period, rest_from, log_small, log_large, aside[2], log_beyond;
    borders at;
    int order, samples, roughly;
} envelope_plan;

int plan_envelope(workspace *space, const envelope *of, double times, double epsilon, double log_delta, int roughly,
                  envelope_plan *plan);
double guess_epsilon(workspace *space, const envelope *of, double times, double log_delta);
double least_epsilon(const envelope *of, double times, double log_delta);
double guess_log_delta(workspace *space, const envelope *of, double times, double epsilon);
envelope_contour contour_of_envelope(workspace *space, const envelope *of, double times, const envelope_plan *plan);
void delta_of_envelope(const envelope_contour *from, double epsilon, double *value, double *lower,
                       double *upper, double *rate);
double log_rest_moment(double times, int order, double log_small, double log_large);
double log_kappa_of(double c);
int solve_envelope(workspace *space, const job *work, answer *found);

#endif
