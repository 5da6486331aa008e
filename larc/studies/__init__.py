"""The experiments: one file each, a dataclass of settings that is also the command line."""
