"""Many cells at once, on the device that their fluorescence is on: method "jumps".

``tables`` holds the grid and the transitions of every cell, ``passes`` are the recursions of
``jumps.passes`` for all cells (``arrays`` in the array API standard, ``kernels`` in Triton),
``levels`` measures baseline and noise, ``fitting`` goes from fluorescence to posterior, and
``assembly`` from jumps to what a user is given.
"""
