"""What records spans."""
