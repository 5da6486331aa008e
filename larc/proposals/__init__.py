"""What the model itself writes: texts sampled under a state, and learned from when judged."""
