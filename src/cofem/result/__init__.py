"""The posterior, what can be done with it, its file and its page."""
