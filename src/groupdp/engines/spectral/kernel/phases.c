/* From what Python passes to rounds in units of the noise. */
#include "phases.h"

#include <math.h>
#include <string.h>

#define LARGEST_COMPOSITION 100000
#define LARGEST_MIXTURE 1000000
/* Probabilities that are rounded. */
#define MOST (1.0 + 1e-9)
/* Every whole number up to here is a double. */
#define MOST_ROUNDS 0x1p53

/* Copies a buffer of doubles: 1, 0 if there is no memory for it, -1 with a Python error set. Declines by value, never
 * by a jump: the buffer has to be released. */
static int copied(workspace *space, PyObject *source, const double **content, Py_ssize_t *count)
{
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_CONTIG_RO | PyBUF_FORMAT) != 0)
        return -1;
    int status = 1;
    if (view.itemsize != sizeof(double) || view.format == NULL || strcmp(view.format, "d") != 0 || view.len == 0) {
        PyErr_SetString(PyExc_ValueError, "a mixture must be given as buffers of doubles");
        status = -1;
    } else if (view.len / view.itemsize > LARGEST_MIXTURE) {
        status = 0;
    } else {
        *count = view.len / view.itemsize;
        double *result = allocate_or_null(space, view.len);
        if (result == NULL)
            status = 0;
        else
            memcpy(result, view.buf, view.len);
        *content = result;
    }
    PyBuffer_Release(&view);
    return status;
}

/* Sensitivities become shifts, in place. 0 where a shift is no finite double; -1 for what is not a mixture: everything
 * below relies on increasing shifts and finite logarithms, and a NaN could hide in a comparison. */
static int scaled(round_law *law, double deviation)
{
    double *m = (double *)law->m, before = 0.0;
    int status = 1;
    for (int i = 0; i < law->size; i++) {
        double sensitivity = m[i], p = law->p[i], log_p = law->log_p[i];
        if (!(sensitivity >= before && isfinite(sensitivity) && p >= 0.0 && p <= MOST && log_p < MOST - 1.0 &&
              isfinite(log_p)))
            return -1;
        before = sensitivity;
        m[i] = sensitivity / deviation;
        if (!isfinite(m[i]) || m[i] < 0.0 || (m[i] == 0.0 && sensitivity > 0.0))
            status = 0;
    }
    return status;
}

/* One phase: 1, 0 if it is declined, -1 with a Python error set. */
static int read_phase(workspace *space, PyObject *phase, round_law *law)
{
    PyObject *sources[3];
    const double **contents[] = {&law->m, &law->p, &law->log_p};
    double deviation, rounds;
    Py_ssize_t sizes[3];
    if (!PyTuple_Check(phase)) {
        PyErr_SetString(PyExc_TypeError, "a phase must be a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(phase, "OOOdd", &sources[0], &sources[1], &sources[2], &deviation, &rounds))
        return -1;
    for (int i = 0; i < 3; i++) {
        int status = copied(space, sources[i], contents[i], &sizes[i]);
        if (status != 1)
            return status;
    }
    if (sizes[0] != sizes[1] || sizes[0] != sizes[2] || !(rounds >= 1.0)) {
        PyErr_SetString(PyExc_ValueError, "a mixture must have as many probabilities as sensitivities, and rounds");
        return -1;
    }
    law->size = (int)sizes[0];
    law->count = rounds;
    int status = scaled(law, deviation);
    if (status < 0)
        PyErr_SetString(PyExc_ValueError, "a mixture must have increasing sensitivities and probabilities up to 1");
    return status == 1 ? rounds <= MOST_ROUNDS : status;
}

int read_phases(workspace *space, PyObject *composition, int *number, round_law **whole)
{
    PyObject *phases = PySequence_Tuple(composition);
    if (phases == NULL)
        return -1;
    Py_ssize_t count = PyTuple_GET_SIZE(phases);
    int status = count > 0 && count <= LARGEST_COMPOSITION;
    if (status == 1) {
        *number = (int)count;
        *whole = allocate_or_null(space, count * sizeof(round_law));
        status = *whole != NULL;
    }
    for (Py_ssize_t i = 0; status == 1 && i < count; i++) {
        (*whole)[i] = (round_law){.log_dropped = -INFINITY};
        status = read_phase(space, PyTuple_GET_ITEM(phases, i), &(*whole)[i]);
    }
    Py_DECREF(phases);
    return status;
}
