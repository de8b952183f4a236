"""Each page as a short Python program on posenc that prints the page's numbers."""
