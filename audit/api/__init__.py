"""What `import audit` gives: whole audits, bounds from scores, plans and accountants, as typed functions."""
