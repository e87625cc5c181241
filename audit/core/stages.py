"""Messages to a person who watches an audit, in addition to model-steps: the stage begun, the work of an earlier
part."""

from __future__ import annotations

import logging

# Each record is one line for people. It also goes where the audit's own log goes.
LOG = logging.getLogger("audit.stages")
