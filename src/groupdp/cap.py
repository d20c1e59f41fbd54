"""Now `groupdp.people.cap`; this name goes in 0.3."""

from groupdp._moved import moved_to

__getattr__ = moved_to(__name__, "groupdp.people.cap")
