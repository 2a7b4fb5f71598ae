"""Planning, measuring, storing: encoder x task x subset."""
