"""Training sentence encoders: what the NLI-tuned baselines and the students share."""
