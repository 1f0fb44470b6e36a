"""Decision problems whose costs are predicted, a module each."""
