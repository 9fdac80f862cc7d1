"""Drives the engine: lengths and arrivals, the race of the schedulers, benchmarks and their physical limits."""
