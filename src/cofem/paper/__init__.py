"""The figures of the paper's simulations, drawn again with one command.

``cofem paper`` runs them. Every figure is a list of trials (a CSV for each panel, to which
finished trials are added line by line), a picture made from those files alone, and a page
that says which of the paper's statements held.
"""
