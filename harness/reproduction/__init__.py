"""Reproduces stored records: measures them again and says what is not as it was.

`findings` compares records and opens no file; `repeat` measures again and tests what changed; `vectors` checks cached
vectors during the measurement; `render` prints the result as text, JUnit XML and GitHub annotations.

The gate asks whether a changed encoder is worse: `sides` are the two, stored or measured; `judge` tests them, `cost`
compares speed and size, and `gate_report` prints what they find. Findings, JUnit XML and annotations are the same.
"""
