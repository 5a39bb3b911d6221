"""Questions that rules ask of values and their sizes."""
