"""The page Check my encoding."""
