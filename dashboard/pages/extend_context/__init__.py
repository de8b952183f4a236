"""The page Extend a model's context."""
