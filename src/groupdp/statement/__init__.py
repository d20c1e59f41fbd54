"""A run's privacy statement for reviewers.

text.py   the statement as Markdown and as JSON
"""
