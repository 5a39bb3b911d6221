"""The textual form of a graph: a printer and a parser."""
