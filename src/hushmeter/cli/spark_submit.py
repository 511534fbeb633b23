r"""The script for spark-submit: it runs `hushmeter fleet` on the cluster that spark-submit names.

::

    SCRIPT=$(python -c "from hushmeter.cli import spark_submit as s; print(s.__file__)")
    spark-submit --master spark://host:7077 $SCRIPT IN_DIR -e 1 --clamp 0,15000 \
        --ledger postgresql://… -o OUT_DIR
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run `hushmeter fleet` with the arguments of this script."""
    # Python puts the folder of a script first in the path, where our modules would hide others.
    sys.path[:] = [entry for entry in sys.path if Path(entry) != Path(__file__).parent]
    from hushmeter.cli import main as run

    sys.argv = ["hushmeter", "fleet", *sys.argv[1:], "--spark", "submit"]
    run()


if __name__ == "__main__":
    main()
