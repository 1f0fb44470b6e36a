"""How our methods are trained for the pages."""
