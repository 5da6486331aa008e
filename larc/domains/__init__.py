"""What is asked: programs to select, CI jobs to predict."""
