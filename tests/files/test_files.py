"""Files are written whole or not at all, and nothing in them is trusted."""
