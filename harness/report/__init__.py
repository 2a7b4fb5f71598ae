"""Tables and pages, made from the records and their statistics, without NumPy or SciPy: tables appear at once."""
