"""Messages to a person who watches an audit, in addition to model-steps: the stage begun, the work of an earlier
part."""

from __future__ import annotations

import logging

LOG = logging.getLogger("audit.stages")
"""Each record is one line for people. It also goes where the audit's own log goes."""
