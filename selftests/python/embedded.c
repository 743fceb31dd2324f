// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program with an interpreter in it, which begins and ends twice: Python calls C, and C calls
 * Python. Ends with "done".
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *from_python(PyObject *module, PyObject *function)
{
	void *volatile p = malloc(3000);

	free(p);
	return PyObject_CallNoArgs(function);
}

static PyMethodDef methods[] = {
	{ "from_python", from_python, METH_O, NULL },
	{ 0 },
};

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "program",
					 .m_methods = methods };

static PyObject *make_module(void)
{
	return PyModule_Create(&definition);
}

/* Its frame is between those of Python. */
void __attribute__((noinline)) call_python(void);
void call_python(void)
{
	PyRun_SimpleString("exec(compile('''import program, reader\\n"
			   "def innermost(): return b'x' * 99967\\n"
			   "def outer():\\n"
			   "    for _ in range(4000): program.from_python(innermost); reader.wait()\\n"
			   "outer()\\n"
			   "''', 'embedded.py', 'exec'))");
	__asm__ volatile("");
}

int main(void)
{
	int i;

	PyImport_AppendInittab("program", make_module);
	for (i = 0; i < 2; i++) {
		Py_Initialize();
		call_python();
		if (Py_FinalizeEx())
			return 1;
	}
	puts("done");
	return 0;
}
