/* What the functions for the tests share (inspection.c, charges.c). */
#ifndef GROUPDP_TESTS_VIEW_H
#define GROUPDP_TESTS_VIEW_H

#include "python_binding.h"

/* One question about a composition: what a function below looks at, with its own arguments. */
typedef struct {
    workspace space;
    int rounds;
    round_law *whole;
    double a, b, c, d, e, f, g, lower, cut;
    int nodes, count;
    double *values;
} view;

typedef PyObject *look(view *at);

PyObject *list_of(const double *values, int count);

/* Reads the composition and the list of doubles (or NULL), looks, and cleans up; None where the core declines. */
PyObject *shown(view *at, PyObject *composition, PyObject *list, look *function);

/* The first branch of the first round. */
branch *first_branch(view *at);

extern PyMethodDef inspection[];
extern PyMethodDef charges[];
extern PyMethodDef allocations[];
extern PyMethodDef one_allocations[];
extern PyMethodDef envelopes[];

#endif
