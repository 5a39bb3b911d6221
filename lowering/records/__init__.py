"""What torch recorded, read: types, sizes, lines, programs, pytrees."""
