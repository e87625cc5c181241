"""Models behind an OpenAI-compatible server: what they can be asked, and scores of texts."""
