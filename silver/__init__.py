"""Silver: parsed, judged, enriched and sessionized."""
