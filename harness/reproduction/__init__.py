"""The regression gate: stored records against a fresh run.

`findings` compares records and is pure; `repeat` measures again; `vectors` checks cached vectors on the way;
`significance` tests what changed; `render` prints it as text, JUnit XML and GitHub annotations.
"""

from harness.reproduction.findings import CACHE, Checked, Finding, check_records, compare_records, tolerances
from harness.reproduction.render import github, junit, text, verdict
from harness.reproduction.repeat import Options, Repeated, against, check_again, repeat

__all__ = [
    "CACHE",
    "Checked",
    "Finding",
    "Options",
    "Repeated",
    "against",
    "check_again",
    "check_records",
    "compare_records",
    "github",
    "junit",
    "repeat",
    "text",
    "tolerances",
    "verdict",
]
