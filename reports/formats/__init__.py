"""Formats of a report, one file each."""

PLUGINS = {
    "annex": "_booklets:Annex",
    "label": "_booklets:Label",
}
