"""Methods with a loop of their own: message passing, variational, greedy."""
