"""Inference: the model, its E-steps, and the EM loop that they share."""
