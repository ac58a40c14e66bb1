"""Recorders of spans."""
