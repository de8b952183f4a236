"""The page Encoding."""
