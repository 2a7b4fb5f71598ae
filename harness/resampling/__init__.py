"""Intervals, paired tests and rank intervals of any metric, on arrays; knows no tasks.

A metric is a function of the rows' multiplicities (`metrics`), of several encoders at once; what is drawn are units
(`resamples`), a cluster of rows each where sets share their source pairs; both together are a sample (`samples`). All
else follows: `bootstrap` gives intervals, `tests` p-values, `holm` corrects them, `ranks` gives intervals of ranks.
"""
