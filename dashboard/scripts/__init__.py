"""Every page as a short Python script on posenc that prints the same numbers."""
