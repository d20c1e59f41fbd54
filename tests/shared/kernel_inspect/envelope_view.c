/* Envelopes: what their answers rest on, each with its bound (S-110 to S-116). */
#include "arithmetic.h"
#include "envelope.h"
#include "view.h"

#include <math.h>

/* Sums over the nodes at c + is, of small losses and of large ones, with the bounds on both; `values` are the borders. */
static PyObject *look_at_sums(view *at)
{
    envelope of = envelope_of(&at->space, at->whole[0].envelope, at->whole[0].count, -30.0);
    borders here = {at->values[0], at->values[1], at->values[2], at->values[3]};
    envelope_table table = tabulate_envelope(&at->space, &of, here, at->a, at->b, (rule_goals){at->c, at->c, at->c});
    double sums[4] = {0.0, 0.0, 0.0, 0.0}, c = at->a, s = at->b, log_small, log_large, log_p, log_q;
    for (int n = 0; n < table.points; n++) {
        double above = exp(table.log_mass[n] + (1.0 + c) * table.loss[n]), below = exp(table.log_mass[n] - c * table.loss[n]);
        double cosine = cos(s * table.loss[n]), sine = sin(s * table.loss[n]);
        int of_small = here.last > 0.0 ? 0 : 2;
        sums[0] += table.small[n] * above * cosine;
        sums[1] += table.small[n] * above * sine;
        sums[2] += table.large[n] * above * cosine;
        sums[3] += table.large[n] * above * sine;
        sums[of_small] += below * cosine;
        sums[of_small + 1] -= below * sine;
    }
    rule_errors(&table, c, s, &log_small, &log_large);
    masses_beyond(&table, &log_p, &log_q);
    envelope_decay fall = decay_of(&table, c);
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "small", sums[0], "small_turned", sums[1], "large", sums[2],
                         "large_turned", sums[3], "log_small_error", log_small, "log_large_error", log_large, "decay",
                         exp(fall.log_scale) * decayed(&fall, s), "atom", of.atom, "log_lost", of.log_lost, "p_beyond", exp(log_p),
                         "q_beyond", exp(log_q));
}

static PyObject *look_at_round(view *at)
{
    double error, rate;
    envelope of = envelope_of(&at->space, at->whole[0].envelope, at->whole[0].count, -60.0);
    double value = one_envelope_round(&of, at->a, &error, &rate);
    return Py_BuildValue("ddd", value, error, rate);
}

/* Positions and weights, one after the other, at frequencies up to a power of 2. */
static PyObject *look_at_exponentials(view *at)
{
    int samples = (int)at->a, points = at->count / 2;
    double *sums = doubles(&at->space, 4 * ((size_t)samples + 1));
    double *other = sums + 2 * ((size_t)samples + 1);
    exponential_sums(&at->space, points, at->values, at->values + points, at->values + points, samples, sums, sums + samples + 1,
                     other, other + samples + 1);
    return Py_BuildValue("NN", list_of(sums, 2 * (samples + 1)), list_of(other, 2 * (samples + 1)));
}

static PyObject *seen(PyObject *arguments, look *function)
{
    view at = {.rounds = 0};
    PyObject *composition, *list;
    if (!PyArg_ParseTuple(arguments, "OO|ddd", &composition, &list, &at.a, &at.b, &at.c))
        return NULL;
    return shown(&at, composition, list, function);
}

static PyObject *sums_of(PyObject *Py_UNUSED(module), PyObject *arguments) { return seen(arguments, look_at_sums); }
static PyObject *round_of(PyObject *Py_UNUSED(module), PyObject *arguments) { return seen(arguments, look_at_round); }
static PyObject *exponentials_of(PyObject *Py_UNUSED(module), PyObject *arguments) { return seen(arguments, look_at_exponentials); }

PyMethodDef envelopes[] = {
    {"envelope_sums", sums_of, METH_VARARGS, "envelope_sums(composition, borders, c, s, log_goal): moments (S-110, S-111, S-113)."},
    {"envelope_round", round_of, METH_VARARGS, "envelope_round(composition, [], epsilon): R, its error and slope (S-115)."},
    {"exponentials", exponentials_of, METH_VARARGS, "exponentials(composition, positions + weights, samples): sums (S-114)."},
    {NULL, NULL, 0, NULL},
};
