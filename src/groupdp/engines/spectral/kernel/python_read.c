/* From what Python passes to rounds in units of the noise. */
#include "python_binding.h"

#include <math.h>
#include <string.h>

#define LARGEST_COMPOSITION 100000
#define LARGEST_SIDE 1000000
#define LARGEST_COIN 100000
/* Probabilities that are rounded. */
#define MOST (1.0 + 1e-9)
/* Every whole number up to here is a double. */
#define MOST_ROUNDS 0x1p53

/* Copies a buffer of doubles: 1, 0 if there is no memory for it, -1 with a Python error set. Declines by value, never
 * by a jump: the buffer has to be released. */
static int copied(workspace *space, PyObject *source, Py_ssize_t largest, const double **content, Py_ssize_t *count)
{
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_CONTIG_RO | PyBUF_FORMAT) != 0)
        return -1;
    int status = 1;
    *content = NULL;
    *count = 0;
    if (view.itemsize != sizeof(double) || view.format == NULL || strcmp(view.format, "d") != 0) {
        PyErr_SetString(PyExc_ValueError, "a law must be given as buffers of doubles");
        status = -1;
    } else if (view.len / view.itemsize > largest) {
        status = 0;
    } else {
        double *result = allocate_or_null(space, view.len + sizeof(double));
        *count = view.len / view.itemsize;
        if (result == NULL)
            status = 0;
        else
            memcpy(result, view.buf, view.len);
        *content = result;
    }
    PyBuffer_Release(&view);
    if (status == 0)
        space->reason = MEMORY;
    return status;
}

/* One side: 1, 0 if it is declined, -1 with a Python error set. */
static int read_side(workspace *space, PyObject **sources, side *law)
{
    const double **contents[] = {&law->shift, &law->p, &law->log_p};
    Py_ssize_t sizes[3];
    for (int i = 0; i < 3; i++) {
        int status = copied(space, sources[i], LARGEST_SIDE, contents[i], &sizes[i]);
        if (status != 1)
            return status;
    }
    law->size = (int)sizes[0];
    if (sizes[0] != sizes[1] || sizes[0] != sizes[2] || !is_law(law)) {
        PyErr_SetString(PyExc_ValueError, "a law must have increasing shifts >= 0, as many probabilities that sum to 1, "
                                          "and their finite logarithms");
        return -1;
    }
    law->variance = 0.25 * span_of(law) * span_of(law) * (1.0 + 0x1p-50);
    return 1;
}

static int read_branch(workspace *space, PyObject *source, branch *of)
{
    PyObject *sides[6];
    if (!PyTuple_Check(source)) {
        PyErr_SetString(PyExc_TypeError, "a branch must be a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(source, "dOOOOOO", &of->log_weight, &sides[0], &sides[1], &sides[2], &sides[3], &sides[4],
                          &sides[5]))
        return -1;
    if (!(of->log_weight < MOST - 1.0 && isfinite(of->log_weight))) {
        PyErr_SetString(PyExc_ValueError, "a law must give every branch a probability up to 1");
        return -1;
    }
    of->weight = exp(of->log_weight);
    int status = read_side(space, sides, &of->right);
    return status == 1 ? read_side(space, sides + 3, &of->left) : status;
}

static int read_gaussians(workspace *space, PyObject *mu, PyObject *log_weights, round_law *law)
{
    Py_ssize_t count, weights;
    int status = copied(space, mu, LARGEST_COIN, &law->mu, &count);
    if (status == 1)
        status = copied(space, log_weights, LARGEST_COIN, &law->gaussian_log_weight, &weights);
    if (status != 1)
        return status;
    law->gaussians = (int)count;
    int sound = count == weights;
    for (Py_ssize_t b = 0; sound && b < count; b++)
        sound = law->mu[b] >= 0.0 && isfinite(law->mu[b]) && law->gaussian_log_weight[b] < MOST - 1.0 &&
                isfinite(law->gaussian_log_weight[b]);
    if (!sound) {
        PyErr_SetString(PyExc_ValueError, "a law must have finite shifts >= 0 and as many probabilities up to 1");
        return -1;
    }
    return 1;
}

/* An envelope: ((shifts, probabilities, log_probabilities),). */
static int read_envelope(workspace *space, PyObject *source, round_law *law)
{
    PyObject *sources[3];
    side *of = allocate_or_null(space, sizeof(side));
    if (of == NULL) {
        space->reason = MEMORY;
        return 0;
    }
    if (!PyArg_ParseTuple(source, "(OOO)", &sources[0], &sources[1], &sources[2]))
        return -1;
    int status = law->count <= MOST_ROUNDS ? read_side(space, sources, of) : 0;
    law->envelope = of;
    return status;
}

/* A law of losses: (losses, log masses under P, log of the mass that has none). */
static int read_atoms(workspace *space, PyObject *source, round_law *law)
{
    PyObject *sources[2];
    const double *content[2];
    Py_ssize_t sizes[2];
    double log_lost, total = 0.0;
    if (!PyArg_ParseTuple(source, "OOd", &sources[0], &sources[1], &log_lost))
        return -1;
    for (int i = 0; i < 2; i++) {
        int status = copied(space, sources[i], LARGEST_SIDE, &content[i], &sizes[i]);
        if (status != 1)
            return status;
    }
    int fits = sizes[0] > 0 && sizes[0] == sizes[1] && law->count <= MOST_ROUNDS && !(log_lost > 0.0);
    for (Py_ssize_t j = 0; fits && j < sizes[0]; j++) {
        fits = isfinite(content[0][j]) && isfinite(content[1][j]) && (j == 0 || content[0][j] >= content[0][j - 1]);
        total += exp(content[1][j]);
    }
    if (!(fits && total <= 1.0 + MOST_ABOVE_ONE)) {
        PyErr_SetString(PyExc_ValueError, "a law of losses must have finite losses that do not decrease, and masses up to 1");
        return -1;
    }
    allocation_law *of = allocate_or_null(space, sizeof(allocation_law));
    allocation *factor = allocate_or_null(space, sizeof(allocation));
    atoms *losses = allocate_or_null(space, sizeof(atoms));
    double *one = allocate_or_null(space, 2 * sizeof(double));
    if (of == NULL || factor == NULL || losses == NULL || one == NULL) {
        space->reason = MEMORY;
        return 0;
    }
    *losses = (atoms){(int)sizes[0], content[0], content[1], log_lost};
    *factor = (allocation){.places = 2.0, .shift = 1.0, .log_probability = -1.0, .atoms = losses};
    one[0] = 0.0;
    one[1] = 1.0;
    *of = (allocation_law){.factors = 1, .products = 1, .factor = factor, .log_weight = one, .times = one + 1};
    law->allocated = of;
    return 1;
}

/* A coin over products of allocations: (reverse, places, shifts, log probabilities, log weights, times). */
static int read_allocations(workspace *space, PyObject *source, round_law *law)
{
    PyObject *sources[5];
    int reverse;
    if (!PyTuple_Check(source)) {
        PyErr_SetString(PyExc_TypeError, "an allocation must be a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(source, "pOOOOO", &reverse, &sources[0], &sources[1], &sources[2], &sources[3], &sources[4]))
        return -1;
    const double *content[5];
    Py_ssize_t sizes[5];
    for (int i = 0; i < 5; i++) {
        int status = copied(space, sources[i], i < 4 ? LARGEST_COIN : LARGEST_SIDE, &content[i], &sizes[i]);
        if (status != 1)
            return status;
    }
    Py_ssize_t factors = sizes[0], products = sizes[3];
    int fits = factors > 0 && products > 0 && sizes[1] == factors && sizes[2] == factors &&
               sizes[4] == factors * products && law->count <= MOST_ROUNDS;
    allocation_law *of = allocate_or_null(space, sizeof(allocation_law));
    allocation *factor = allocate_or_null(space, ((size_t)factors + 1) * sizeof(allocation));
    if (of == NULL || factor == NULL) {
        space->reason = MEMORY;
        return 0;
    }
    for (Py_ssize_t f = 0; fits && f < factors; f++)
        factor[f] = (allocation){.places = content[0][f], .shift = content[1][f], .log_probability = content[2][f]};
    *of = (allocation_law){.factors = (int)factors, .products = (int)products, .reverse = reverse, .factor = factor};
    of->log_weight = content[3];
    of->times = content[4];
    if (!(fits && is_allocation_law(of))) {
        PyErr_SetString(PyExc_ValueError, "an allocation must have places >= 1, positive shifts, probabilities up to 1 "
                                          "and weights that sum to 1, and how often it stands in every product");
        return -1;
    }
    law->allocated = of;
    return 1;
}

/* One round: 1, 0 if it is declined, -1 with a Python error set. */
static int read_round(workspace *space, PyObject *source, round_law *law)
{
    PyObject *branches, *mu, *log_weights, *allocated = NULL;
    if (!PyTuple_Check(source)) {
        PyErr_SetString(PyExc_TypeError, "a round must be a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(source, "dOOO|O", &law->count, &branches, &mu, &log_weights, &allocated))
        return -1;
    if (!(law->count >= 1.0)) {
        PyErr_SetString(PyExc_ValueError, "a law must be run at least once");
        return -1;
    }
    if (allocated != NULL && PyTuple_Check(allocated) && PyTuple_GET_SIZE(allocated) == 1)
        return read_envelope(space, allocated, law);
    if (allocated != NULL && PyTuple_Check(allocated) && PyTuple_GET_SIZE(allocated) == 3)
        return read_atoms(space, allocated, law);
    if (allocated != NULL)
        return read_allocations(space, allocated, law);
    int status = read_gaussians(space, mu, log_weights, law);
    PyObject *all = status == 1 ? PySequence_Tuple(branches) : NULL;
    if (all == NULL)
        return status == 1 ? -1 : status;
    Py_ssize_t count = PyTuple_GET_SIZE(all);
    law->branches = (int)count;
    law->branch = count <= LARGEST_COIN ? allocate_or_null(space, ((size_t)count + 1) * sizeof(branch)) : NULL;
    status = law->branch != NULL && law->count <= MOST_ROUNDS;
    space->reason = MEMORY;
    for (Py_ssize_t b = 0; status == 1 && b < count; b++) {
        law->branch[b] = (branch){.weight = 0.0};
        status = read_branch(space, PyTuple_GET_ITEM(all, b), &law->branch[b]);
    }
    Py_DECREF(all);
    if (status == 1 && law->branches + law->gaussians == 0) {
        PyErr_SetString(PyExc_ValueError, "a law must have a branch");
        return -1;
    }
#ifndef BRANCHES_MAY_BE_LOST /* tests show the moment of a coin from which the kernel itself has dropped branches (S-12) */
    if (status == 1 && !is_coin(law)) {
        PyErr_SetString(PyExc_ValueError, "a law must give its branches probabilities that sum to 1");
        return -1;
    }
#endif
    return status;
}

int read_composition(workspace *space, PyObject *composition, int *number, round_law **whole)
{
    PyObject *rounds = PySequence_Tuple(composition);
    if (rounds == NULL)
        return -1;
    Py_ssize_t count = PyTuple_GET_SIZE(rounds);
    int status = count > 0 && count <= LARGEST_COMPOSITION;
    space->reason = MEMORY;
    if (status == 1) {
        *number = (int)count;
        *whole = allocate_or_null(space, count * sizeof(round_law));
        status = *whole != NULL;
    }
    for (Py_ssize_t i = 0; status == 1 && i < count; i++) {
        (*whole)[i] = (round_law){.count = 0.0};
        status = read_round(space, PyTuple_GET_ITEM(rounds, i), &(*whole)[i]);
    }
    Py_DECREF(rounds);
    return status;
}
