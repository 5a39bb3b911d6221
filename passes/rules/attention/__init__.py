"""Rules of attention, its masks, scores and rotary positions."""
