"""What torch relied on while it traced."""
