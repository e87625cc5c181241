"""Where jobs run: here one after another, in several processes, or on a Ray cluster."""
