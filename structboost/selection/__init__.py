"""What is chosen by held-out examples."""
