"""Whether everything that touches devices works on one: `python -m benchmarks.device`."""
