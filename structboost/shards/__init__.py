"""Training set in shards, runs of blocks of examples with responses of learners and cuts."""
