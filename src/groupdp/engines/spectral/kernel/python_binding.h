/* A composition as Python passes it: a sequence of rounds (count, branches, mu, log_weights), where branches is a
 * sequence of (log_weight, right shifts, probabilities, log_probabilities, left shifts, probabilities,
 * log_probabilities), and mu and log_weights are those of branches N(mu, 1) against N(0, 1); buffers of doubles; or
 * (count, (), empty, empty, allocations), allocations being (reverse, places, shifts, log probabilities, log weights of
 * the products, how often each factor stands in each product); or (count, (), empty, empty, ((shifts, probabilities,
 * log_probabilities),)) of an envelope. */
#ifndef GROUPDP_PYTHON_BINDING_H
#define GROUPDP_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "spectral.h"

/* 1 if the composition was read, 0 if it is declined (the reason is in the workspace), -1 with a Python error set. */
int read_composition(workspace *space, PyObject *composition, int *number, round_law **whole);

/* A workspace with memory kept from an earlier call, and back. Only while the interpreter's lock is held. */
void take_kept(workspace *space);
void release_kept(workspace *space);

/* The name of a reason. */
PyObject *named(enum reason why);

extern PyMethodDef neighbourhoods[];

#endif
