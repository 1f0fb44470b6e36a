"""Models: weak learners and their weights, whatever trained them; scores, contributions, files."""
