"""Where jobs run and where their results are kept."""
