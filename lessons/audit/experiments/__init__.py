"""One file per topic. Each function is an experiment: its name is its id."""
