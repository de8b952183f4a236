"""Commands of `python -m posenc`, a file for each subject."""
