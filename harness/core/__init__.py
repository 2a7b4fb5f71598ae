"""What every room may use: errors, names, files and their schemas, escaping of text, progress, provenance."""
