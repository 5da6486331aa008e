"""The commands, one file each: ``add`` declares a command, and the rest of the file does it."""
