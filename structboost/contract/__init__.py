"""What the methods of a task take and give, checked, and calls of them that name the example."""
