"""The inference engine: scheduling decides, trace remembers, worker computes, workload drives, serving exposes."""
