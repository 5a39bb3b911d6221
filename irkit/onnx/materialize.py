"""stub"""
def materialize(g): return g
