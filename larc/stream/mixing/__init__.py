"""Mixing predictors by the evidence of labels that arrive late."""
