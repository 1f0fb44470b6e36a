"""Where the shards of a training set live, and who computes on them."""
