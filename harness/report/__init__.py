"""Tables and pages, made from the records alone. Neither NumPy nor SciPy is imported in here: they answer at once."""
