"""Seeded, realistic web traffic with its exact truth, for demonstrations, tests and benchmarks."""
