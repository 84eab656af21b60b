"""Simulated cells."""

RATE = 30.0
