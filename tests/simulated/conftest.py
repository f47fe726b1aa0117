"""The checks register a device for the whole process: only one that is asked to collects them."""

import os

collect_ignore = [] if os.environ.get("TOTALCAL_SIMULATED_DEVICE") else ["checks.py", "device.py"]
