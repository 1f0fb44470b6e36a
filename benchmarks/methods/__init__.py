"""Who is measured: one module for each family of methods."""
