"""Argmaxes and the searches behind them; nothing here knows a task."""
