"""Upper bounds on epsilon that libraries claim, one adapter a file."""
