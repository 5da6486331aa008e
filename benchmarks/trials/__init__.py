"""Trials on training data alone, by which the settings of a study were chosen."""
