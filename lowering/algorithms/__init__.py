"""Numerical algorithms as graphs: Schur, Jacobi, elimination, polynomials. Without torch."""
