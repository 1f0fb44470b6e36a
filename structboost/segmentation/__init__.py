"""Learning to segment images: superpixels, their features, potentials, and CRFs on them (StructBoost, 3.6 and 4.5)."""
