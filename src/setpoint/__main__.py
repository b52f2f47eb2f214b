"""`python -m setpoint`, for when the command is not on the path."""

import sys

from setpoint.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
