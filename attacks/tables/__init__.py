"""A synthetic table held against the records that it was made from: singling out, linkability and inference."""
