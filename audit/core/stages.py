"""What a person who watches an audit is told in addition to model-steps: which stage has begun, what an earlier part had
done."""

from __future__ import annotations

import logging

LOG = logging.getLogger("audit.stages")
"""Each record is one line for people. It also goes where the audit's own log goes."""
