"""From per-item rows to the board: which encoder is best, and is the difference real?

`rows` keeps and reads the rows; `evidence` computes intervals and tests of several encoders on one subset; `update`
keeps them in a results folder; `board` says from what is kept which encoders are the best; `comparison` tells it of a
few encoders in full. `board` needs no NumPy.
"""
