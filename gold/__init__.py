"""Gold: answers, one row per key."""
