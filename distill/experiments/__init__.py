"""The ablations of the paper: grids of distillations, found through their command alone."""
