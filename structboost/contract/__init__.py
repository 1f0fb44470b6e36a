"""Arguments and results of the methods of a task, checked; errors name the example."""
