"""Several encoders on the same data: which differences are real.

    run = Run(VectorCache(), ResultStore(results))
    measured = [measure_rows(run, load_encoder(name), plan) for name in ("student", "muse")]
    compared = compare_rows(plan, measured, Resampling())
    print(conclusion(compared, [one.encoder for one in measured], alpha=0.05))

`harness.evaluation` has or computes each encoder's per-item rows, `compared` makes values, differences and tests of
them with `harness.stats`, `conclusion` says in a sentence what they allow, and `tables` prints them.
"""

from harness.comparison.compared import (
    Compared,
    Difference,
    Kind,
    Outcome,
    compare_rows,
    win_tie_loss,
)
from harness.comparison.conclusion import conclusion
from harness.comparison.tables import entries, tables

__all__ = [
    "Compared",
    "Difference",
    "Kind",
    "Outcome",
    "compare_rows",
    "conclusion",
    "entries",
    "tables",
    "win_tie_loss",
]
