"""Restricted master problems, a module each, and the cuts they share."""
