"""What runs and files must survive: kills at any moment, changed bytes, damaged input.

The tests do a little of it, ``make torture`` all of it.
"""
