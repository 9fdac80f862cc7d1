"""The lessons in the app: links, the stage on which cells run, and what draws their items."""
