"""Seeded, realistic web traffic with exact expected results, for demonstrations, tests and benchmarks."""
