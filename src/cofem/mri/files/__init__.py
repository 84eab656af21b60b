"""K-space and images in files."""
