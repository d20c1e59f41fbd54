"""Containment: every function that returns bounds, at extreme inputs, against ball arithmetic."""
