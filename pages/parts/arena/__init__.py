"""The Arena's parts: the race job, the prediction and its lock, and what the board in the browser is told."""
