"""A ledger of everything that was released about people.

book.py    what a ledger says: its entries, and the two figures; making, reading and adding
afford.py  whether the next run fits a budget
chain.py   the file: JSON lines chained by digests, written whole under a lock
"""

from groupdp.ledger.afford import Afforded, afford
from groupdp.ledger.book import Entry, Ledger, State, add_release, make_ledger, read_ledger, spent

__all__ = ["Afforded", "Entry", "Ledger", "State", "add_release", "afford", "make_ledger", "read_ledger", "spent"]
