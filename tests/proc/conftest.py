"""The folder above is in the path of imports too: machine.py is there, for all suites."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
