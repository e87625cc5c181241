"""A process that reads third-party files: what it gives up, how the audit talks to it, and the escapes that are tried from
it."""
