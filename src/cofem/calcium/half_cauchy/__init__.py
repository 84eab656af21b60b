"""Deconvolution under the half-Cauchy prior (method "banded")."""
