"""Rules of views, transposes, joins, lookups and what moves elements."""
