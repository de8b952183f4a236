"""The page Claims, tested."""
