"""Damaged and crafted variants of every kind of file, with a module for each kind."""
