"""Commands of `python -m posenc` beside training, a file for each subject."""
