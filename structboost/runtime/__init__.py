"""What belongs to the process: compiled code, Ctrl-C, threads of BLAS, memory."""
