"""Bronze: raw lines, kept for ever."""
