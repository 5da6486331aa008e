"""The experiments: a folder and a `Study` each, listed in `larc.studies.registry`."""
