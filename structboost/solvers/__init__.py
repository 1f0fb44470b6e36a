"""Solvers: the algorithms that minimise what a master states."""
