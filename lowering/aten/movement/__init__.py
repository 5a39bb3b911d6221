"""Converters of operators that put elements elsewhere: views, joins, pads."""
