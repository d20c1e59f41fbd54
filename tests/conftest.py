"""Settings of the whole suite.

Property tests draw the same examples every time, so a red suite means a change in the code. To explore:

    HYPOTHESIS_PROFILE=explore .venv/bin/python -m pytest
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# A shell that runs the suite in the background has it ignore Ctrl-C, and every command it starts would do the same.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
