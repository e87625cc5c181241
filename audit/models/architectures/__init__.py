"""Built-in architectures, one file each."""
