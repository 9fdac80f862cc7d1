"""Exposes the engine: OpenAI-compatible routes and Prometheus metrics, as Starlette routes over a ``Driver``."""
