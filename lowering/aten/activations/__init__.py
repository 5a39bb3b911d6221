"""Converters of activations, and of the softmax family."""
