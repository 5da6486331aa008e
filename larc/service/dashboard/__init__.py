"""Pages for people: what streams and repositories have learned, and whether it pays."""
