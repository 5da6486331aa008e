"""Versions of the tables, and how to come from each to the next."""
