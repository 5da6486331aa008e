"""The measurements of the live service: ratios of things measured side by side in one run.

``python -m benchmarks.serving`` prints them; `load` sends requests, `servers` starts what they are
sent to, `measures` is what is compared, `rates` what batches can gain, `stored` the memory of a
million streams.
"""
