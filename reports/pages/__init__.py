"""Pages of the document."""
