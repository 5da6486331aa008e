"""What the README and the pages under ``docs`` need besides their text.

Formulas become MathML, so that pages need no script from elsewhere; tables, numbers and the picture
are taken from ``results``, so that none can differ from what was measured. ``make docs`` runs it.
"""
