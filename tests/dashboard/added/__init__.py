"""A scheme and a scaling made up for tests, as somebody would add them to the package."""
