/* A composition as Python passes it: a sequence of phases (sensitivities, probabilities, log_probabilities,
 * standard_deviation, rounds), the first three as buffers of doubles. */
#ifndef GROUPDP_PHASES_H
#define GROUPDP_PHASES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "spectral.h"

/* 1 if the composition was read, 0 if it is declined, -1 with a Python error set. */
int read_phases(workspace *space, PyObject *composition, int *number, round_law **whole);

/* What the tests look at, one level below the answers. */
extern PyMethodDef inspection[];

#endif
