"""Learning: the one loop, its stop and noise rules, starts, certificate, checkpoint."""
