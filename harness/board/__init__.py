"""The board: one HTML page with all results of a folder, for people who look; it needs no server and no network."""
