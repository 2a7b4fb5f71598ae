"""A results folder: records, the per-item rows that they were computed from, and the statistics of both."""
