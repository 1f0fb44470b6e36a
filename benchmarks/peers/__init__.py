"""What ours is compared with: one module for each family of methods."""
