"""The learned prior by sampling which coordinates are non-zero, for coherent columns."""
