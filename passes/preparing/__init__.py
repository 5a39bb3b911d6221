"""The last steps before a graph is written for its runtime."""
