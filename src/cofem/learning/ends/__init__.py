"""From the ends of the starts of the learned prior to one answer."""
