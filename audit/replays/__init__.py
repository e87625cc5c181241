"""Replay: run a program on a data set, hand its releases back on a neighbour, and count what still differs
(docs/theory/replay.md)."""
