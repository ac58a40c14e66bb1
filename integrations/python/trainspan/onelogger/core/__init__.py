"""What spans, events and attributes are made of."""
