"""What kernels of torch hold sizes of operands to, where its meta device does not tell."""
