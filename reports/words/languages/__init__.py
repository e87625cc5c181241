"""The sentences of a report, a file a language, all with the same keys and the same names in braces."""
