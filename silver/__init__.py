"""Silver: parsed, validated, enriched and sessionized."""
