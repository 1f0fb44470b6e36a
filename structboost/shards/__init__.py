"""The training set in shards: runs of blocks of examples, with the learners' answers and cuts."""
