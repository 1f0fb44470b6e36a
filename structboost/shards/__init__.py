"""The training set in shards: runs of blocks of examples, each with its share of all that is as long as they are."""
