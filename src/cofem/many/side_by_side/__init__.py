"""The learned prior for many problems with one Φ, each with a prior and a noise of its own."""
