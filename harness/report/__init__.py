"""Tables and pages, made from the records and the statistics beside them.

Neither NumPy nor SciPy is imported for a table: it answers at once. (The heat maps of language bias need NumPy.)
"""
