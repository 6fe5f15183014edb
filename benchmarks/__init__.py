"""Repeatable measurements with real processes. `python -m benchmarks --help` says how."""
