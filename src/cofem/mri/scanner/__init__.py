"""What a scanner measures: coils, k-space, trajectories, noise, and the checks of them."""
