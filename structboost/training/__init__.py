"""Training by column generation, and the choice of C."""
