"""Converters of layers: convolution, pooling, attention, recurrent layers, images."""
