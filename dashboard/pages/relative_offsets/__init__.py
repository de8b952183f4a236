"""The page Relative offsets."""
