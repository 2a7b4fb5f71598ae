"""Intervals, paired tests and rank intervals of any metric, on arrays; knows no tasks.

`resamples` draws units (clusters of rows where sets share their source pairs); `metrics` has metrics as functions of
the rows' multiplicities, for several encoders at once, and samples, which join a metric with its units; `bootstrap`
computes intervals of a sample, `tests` p-values and intervals of ranks.
"""
