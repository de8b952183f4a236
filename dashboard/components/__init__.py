"""Matrices, clocks and other components that run in the browser: their Python, JavaScript and CSS."""
