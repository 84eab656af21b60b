"""The warning for everything that ended before it was done."""


class ConvergenceWarning(UserWarning):
    """Something was not solved to its tolerance; the message says what to do."""
