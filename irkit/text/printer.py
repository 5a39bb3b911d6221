def print_graph(g): return "todo"
