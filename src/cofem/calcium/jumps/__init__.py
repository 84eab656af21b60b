"""Spikes as jumps of calcium: a hidden Markov model on a grid of calcium, every cell its own.

``states`` builds the grid and its transitions, ``passes`` are the compiled recursions
forward and backward, ``search`` finds a cell's constants by evidence, ``fitting`` goes from
fluorescence to posterior, ``counting`` from jumps to numbers of spikes and to events.
"""
