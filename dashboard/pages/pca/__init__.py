"""The page PCA."""
