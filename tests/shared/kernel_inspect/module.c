/* kernel_inspect: the kernel's sources with functions that show the tests what its answers rest on. */
#include "view.h"

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "kernel_inspect_compiled",
    .m_doc = "Quantities inside of the spectral engine, for the tests.",
    .m_size = 0,
    .m_methods = inspection,
};

PyMODINIT_FUNC PyInit_kernel_inspect_compiled(void)
{
    PyObject *result = PyModule_Create(&module);
    if (result != NULL &&
        (PyModule_AddFunctions(result, charges) != 0 || PyModule_AddFunctions(result, allocations) != 0 ||
         PyModule_AddFunctions(result, one_allocations) != 0 || PyModule_AddFunctions(result, envelopes) != 0)) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}
