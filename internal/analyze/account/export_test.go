package account

// SetRowLimit makes a builder sort in a temporary file beyond n spans.
func SetRowLimit(b *Builder, n int) { b.rows.limit = n }

// Numbered returns a builder that was read its rank and attempt.
func Numbered(b *Builder, rank, attempt int) *Builder {
	b.done.Rank, b.done.Attempt = rank, attempt
	return b
}

// PartNames lists the parts.
func PartNames() []Part { return []Part{Compute, Communication, WaitInStep, OtherCode, StepUnsplit} }
