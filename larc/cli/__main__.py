"""``python -m larc.cli``."""

import sys

from larc.cli.command_line import main

sys.exit(main())
