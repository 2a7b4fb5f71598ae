"""Results to and from other tools: files of `mteb` (Muennighoff et al. 2023, "MTEB"), without its package."""
