"""Command ``structboost warmup``, which compiles before the first use."""
