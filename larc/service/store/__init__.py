"""What the service keeps: the log, answers, states, leases and tokens."""
