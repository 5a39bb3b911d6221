"""What the commands of the toolbox do: run, count, cut out, compare and measure models, without torch."""
