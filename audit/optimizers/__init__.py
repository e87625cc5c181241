"""Optimisers on the flat parameters of N models. A file adds one; Adam and AdamW share theirs."""

PLUGINS = {"adam": "_moments:Adam", "adamw": "_moments:AdamW"}
