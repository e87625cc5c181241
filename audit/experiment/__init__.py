"""The straight line from a config to a report, one step a file."""
