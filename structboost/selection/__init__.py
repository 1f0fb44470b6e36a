"""Choice of parameters by held-out examples."""
