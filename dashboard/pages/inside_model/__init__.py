"""The page Inside a model."""
