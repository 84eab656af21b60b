"""Learning what the data do not say: the prior of the unknowns, and the noise."""
