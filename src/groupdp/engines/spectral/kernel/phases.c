/* From what Python passes to rounds in units of the noise. */
#include "phases.h"

#include <math.h>

#define LARGEST_COMPOSITION 100000
#define LARGEST_MIXTURE 1000000

/* Copies `count` doubles of a buffer, divided by `unit`. */
static const double *copied(workspace *space, PyObject *source, double unit, Py_ssize_t *count)
{
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_CONTIG_RO) != 0)
        return NULL;
    double *result = NULL;
    if (view.itemsize == sizeof(double) && view.len > 0 && view.len / view.itemsize <= LARGEST_MIXTURE) {
        *count = view.len / view.itemsize;
        result = doubles(space, *count);
        for (Py_ssize_t i = 0; i < *count; i++)
            result[i] = ((const double *)view.buf)[i] / unit;
    }
    PyBuffer_Release(&view);
    if (result == NULL)
        PyErr_SetString(PyExc_ValueError, "a mixture must be given as buffers of doubles");
    return result;
}

int read_phases(workspace *space, PyObject *composition, int *number, round_law **whole)
{
    if (setjmp(space->declined) != 0)
        return 0;
    PyObject *phases = PySequence_Fast(composition, "a composition must be a sequence");
    if (phases == NULL)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(phases);
    int status = count > 0 && count <= LARGEST_COMPOSITION ? 1 : 0;
    if (status == 1) {
        *number = (int)count;
        *whole = allocate(space, count * sizeof(round_law));
    }
    for (Py_ssize_t i = 0; status == 1 && i < count; i++) {
        PyObject *m, *p, *log_p;
        double deviation, rounds;
        Py_ssize_t size, same, also;
        round_law law = {.log_dropped = -INFINITY};
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(phases, i), "OOOdd", &m, &p, &log_p, &deviation, &rounds) ||
            (law.m = copied(space, m, deviation, &size)) == NULL || (law.p = copied(space, p, 1.0, &same)) == NULL ||
            (law.log_p = copied(space, log_p, 1.0, &also)) == NULL) {
            status = -1;
        } else if (size != same || size != also || !(rounds >= 1.0)) {
            PyErr_SetString(PyExc_ValueError, "a mixture must have as many probabilities as sensitivities");
            status = -1;
        } else {
            law.size = (int)size;
            law.count = rounds;
            (*whole)[i] = law;
        }
    }
    Py_DECREF(phases);
    return status;
}
