"""Functions of torch called with sizes where they take plain numbers."""
