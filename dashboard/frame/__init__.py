"""Parts around every page: header, figures, drawers, toolbar and export."""
