"""The service on more than one machine: its ingress and its workers as deployments of Ray Serve.

Ray starts them, replaces them, and brings requests to any ingress. Nothing is right because of it:
who owns a stream, and what is learned once, is decided in PostgreSQL, by leases and epochs.
"""
