"""Intervals, paired tests and rank intervals from per-item rows, whatever the metric.

A metric is a function of the rows' multiplicities (`statistics`), of several encoders at once; what is drawn are units
(`resamples`), a cluster of rows each where sets share their source pairs. All else follows from the two:

    sample = sample_of(task, "spearman", [rows_of_a, rows_of_b])      # or average([sample, ...])
    replicates = bootstrap(sample, Resampling(resamples=10_000, seed=12345))
    bca_interval(replicates)          # a value with its interval for each encoder
    compare(sample, [(0, 1)], replicates=replicates)
    rank_intervals(replicates)
"""

from harness.significance.holm import holm
from harness.stats.bootstrap import Interval, Replicates, bca_interval, bootstrap, bootstrap_each, percentile_interval
from harness.stats.evidence import Evidence
from harness.stats.joining import Joining, joining
from harness.stats.paired import Comparison, bootstrap_p, compare, effect_size, randomisation_p
from harness.stats.ranks import RankInterval, rank_intervals
from harness.stats.resamples import Resampling, Units, independent, join
from harness.stats.samples import Sample, average, gold_and_cosine, sample_of, source_pairs
from harness.stats.statistics import Combination, Ratio, Statistic, f1, mean, pearson, spearman

__all__ = [
    "Combination",
    "Comparison",
    "Evidence",
    "Interval",
    "Joining",
    "RankInterval",
    "Ratio",
    "Replicates",
    "Resampling",
    "Sample",
    "Statistic",
    "Units",
    "average",
    "bca_interval",
    "bootstrap",
    "bootstrap_each",
    "bootstrap_p",
    "compare",
    "effect_size",
    "f1",
    "gold_and_cosine",
    "holm",
    "independent",
    "join",
    "joining",
    "mean",
    "pearson",
    "percentile_interval",
    "randomisation_p",
    "rank_intervals",
    "sample_of",
    "source_pairs",
    "spearman",
]
