"""What surrounds every page: header, figures, drawers, toolbar, export and quiz mode."""
