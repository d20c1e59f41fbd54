"""A ledger under 100 random kills, and under 8 concurrent writers: nothing lost, nothing half-written.

    python studies/ledger_kills.py [--kills 100] [--writers 8] [--each 50] [--seed 1]

tests/ledger/test_chain.py has the checks and runs a few of them. The exit status is 0 only if all hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "ledger"))

from test_chain import kill_at_random, write_together

from groupdp.ledger import make_file, read_lines


def main() -> int:
    parser = argparse.ArgumentParser()
    for name, default in (("kills", 100), ("writers", 8), ("each", 50), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        killed, together = Path(folder, "killed"), Path(folder, "together")
        for place in (killed, together):
            place.mkdir()
            make_file(place / "a.jsonl", {"first": True})
        kill_at_random(killed / "a.jsonl", options.kills, options.seed)
        print(f"{options.kills} kills: {len(read_lines(killed / 'a.jsonl')) - 1} lines, all whole and in order")
        write_together(together / "a.jsonl", options.writers, options.each)
        print(f"{options.writers} writers: {len(read_lines(together / 'a.jsonl')) - 1} lines, none lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
