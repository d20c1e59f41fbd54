"""A ledger of everything that was released about people.

book.py    what a ledger says: its entries, the two figures, and whether the next run fits a budget
chain.py   its file: JSON lines chained by digests, written whole under a lock; making, reading and adding
"""

from groupdp.ledger.book import Afforded, Entry, Ledger, State, afford, spent
from groupdp.ledger.chain import add_release, make_ledger, read_ledger

__all__ = ["Afforded", "Entry", "Ledger", "State", "add_release", "afford", "make_ledger", "read_ledger", "spent"]
