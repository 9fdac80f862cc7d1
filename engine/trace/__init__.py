"""Remembers. Every fact of a run is a record; every picture, metric and export is a fold over the records. No torch."""
