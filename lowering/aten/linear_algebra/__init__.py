"""Converters of products, factorizations, solvers, spectra and Fourier transforms."""
