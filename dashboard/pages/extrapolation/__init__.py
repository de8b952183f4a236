"""The page Extrapolation."""
