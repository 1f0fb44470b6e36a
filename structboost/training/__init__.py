"""Training: the plan, the loop, its columns, and the choice of C."""
