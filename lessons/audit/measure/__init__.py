"""Measurements: each drives the engine, or the device, and returns a plain document. ``catalogue`` lists them."""
