"""Tables of the document."""
