"""The measurements behind ``larc bench``: every number is a ratio, taken side by side in one run.

One file per question. Each has a ``SECTION`` that says what is measured and a function from a
`Setting` to rows; what people would use instead is called the way its documentation says.
"""
