"""Weak-learner families, a module each, and what they share."""
