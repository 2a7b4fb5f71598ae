"""Evaluation harness for multilingual sentence embeddings."""
