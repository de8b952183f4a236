"""The page Learn in five steps."""
