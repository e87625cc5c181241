"""What trainings do to the data, one file each: from the keys of a config to an event."""
