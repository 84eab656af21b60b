"""The model, the methods and their options, and the checks at the door."""
