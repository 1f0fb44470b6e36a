"""Algorithms that minimise the problems of the masters."""
