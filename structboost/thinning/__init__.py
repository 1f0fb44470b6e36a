"""Fewer trees for models that other libraries trained, with a certificate over all their trees."""
