"""``structboost warmup``: compile before the first use."""
