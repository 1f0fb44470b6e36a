"""Compiled code, Ctrl-C, threads of BLAS and memory of the process."""
