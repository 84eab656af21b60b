"""What prior the coordinates have: one site rule each, with what it needs."""
