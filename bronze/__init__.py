"""Bronze: raw lines, kept without limit."""
