package goodput

// SetRowLimit makes a builder sort in a temporary file beyond n spans.
func SetRowLimit(b *Builder, n int) { b.rows.limit = n }
