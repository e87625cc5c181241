"""Formats of a report, one file each."""

PLUGINS = {"annex": "_booklets:Annex", "junit": "_pipelines:JUnit", "label": "_booklets:Label", "sarif": "_pipelines:Sarif"}
