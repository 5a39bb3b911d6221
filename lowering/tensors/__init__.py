"""Values as torch computes with them: promotion, shapes, NaN, pairs of complex numbers, resampling. Without torch."""
