"""Decides: which requests run in a step, how many tokens each, and where their KV lives. No torch."""
