"""Tables, figures and pages: made from what a run saved, and from nothing else."""
