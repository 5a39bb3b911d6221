"""What a graph computes, by numpy: the interpreter and its kernels."""
