"""A run's privacy statement for reviewers: its numbers (numbers.py), its sentences and formats (text.py)."""
