"""What a dataset's people get, and how many examples of each to keep.

counts_file.py   numbers of examples per person from a file
view.py          how many people get which epsilon
cap.py           how many examples per person to keep
plan.py          which way to sample: examples, people, or every example once an epoch
"""

from groupdp.people.view import people_view

__all__ = ["people_view"]
