"""Values and graphs in the hand: what their methods do (irkit/core/methods.py says which there are)."""
