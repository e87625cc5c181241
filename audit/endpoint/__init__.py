"""Models behind an OpenAI-compatible server: the supported requests, and scores of texts."""
