"""The adapters: one file a system, models of a hub as data in aliases.toml."""
