"""Models that generate: their steps as programs, called by the loop of transformers."""
