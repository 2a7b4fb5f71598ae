"""Data sets in their published layouts: finding, reading, fetching and verifying them."""

from harness.data.sources import DataDir, Source, bundled_sample, open_data_dir

__all__ = ["DataDir", "Source", "bundled_sample", "open_data_dir"]
