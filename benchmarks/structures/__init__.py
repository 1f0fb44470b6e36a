"""What the page *structures* measures, a module per structure."""
