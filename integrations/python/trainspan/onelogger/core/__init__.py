"""Spans, events and attributes."""
