"""The page Why order matters."""
