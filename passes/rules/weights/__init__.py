"""Rules that compute with weights before a model runs."""
