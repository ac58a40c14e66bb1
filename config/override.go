package config

// Override is a partial configuration in the words of a file, to be laid over a
// [Base] by [Merge]: a nested map changes only the fields it names, nil clears
// a field, and anything else replaces it. Values may be functions where the
// field takes one.
type Override map[string]any
