"""Commands of `posenc`, a file for each subject."""
