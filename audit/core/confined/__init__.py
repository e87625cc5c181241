"""A process that reads third-party files: the rights it gives up, its messages with the audit, and the escapes tried from
it."""
