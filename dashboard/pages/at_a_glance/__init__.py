"""The page At a glance."""
