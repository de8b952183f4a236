"""The page Similarity."""
