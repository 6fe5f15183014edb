"""Gold: aggregates, one row per key."""
