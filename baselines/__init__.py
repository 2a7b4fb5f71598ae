"""Adapters for existing sentence encoders, one file a system, found through the entry points `harness.encoders`."""
