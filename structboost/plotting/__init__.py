"""Plots of fitted models."""
