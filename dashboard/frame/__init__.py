"""What surrounds every page: header, figures, drawers, toolbar and export."""
