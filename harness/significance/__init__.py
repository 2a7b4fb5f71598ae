"""Intervals and tests of stored results, kept beside the records so that tables need no per-item rows.

`update` makes them from rows (with `harness.stats`), `store` keeps them in `RESULTS/statistics/TASK.json`, and
`standing` says which results of a board are the best. Only `update` needs NumPy.
"""
