"""Intervals, paired tests and rank intervals from per-item rows, whatever the metric; and the board made of them.

A metric is a function of the rows' multiplicities (`metrics`), of several encoders at once; what is drawn are units
(`resamples`), a cluster of rows each where sets share their source pairs. All else follows from the two: `bootstrap`
gives intervals, `tests` p-values, `ranks` intervals of ranks. `evidence` computes them for the rows of encoders on one
subset; `update` keeps them in a results folder; `board` says from what is kept which encoders are the best, and
`comparison` tells it of a few encoders in full. `board` and `holm` need no NumPy.
"""
