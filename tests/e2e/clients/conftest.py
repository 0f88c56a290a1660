"""The clients under test are those of the source tree."""

import sys

from harness import ROOT

sys.path.insert(0, str(ROOT / "clients/python/src"))
