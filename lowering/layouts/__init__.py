"""Models of transformers as folders that other libraries load and generate with."""
