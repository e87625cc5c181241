"""A process that reads files of others: what it gives up, how the audit talks to it, and the escapes that are tried from it."""
