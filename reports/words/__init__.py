"""Words of the document, by language."""
