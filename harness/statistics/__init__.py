"""From per-item rows to the board: which encoder is best, and is the difference real?

`rows` keeps and reads the rows; `evidence` computes intervals and tests of several encoders on one subset; `update`
stores them in a results folder; `board` says from what is stored which encoders are the best; `comparison` compares
a few encoders in full. `board` imports no NumPy.
"""
