"""The value, the graph, types, attributes and contents, and what walks, prints and hashes them."""
