"""The log formats: one module each, named like its format, with its declaration `FORMAT`."""
