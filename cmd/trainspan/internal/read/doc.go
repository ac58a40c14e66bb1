// Package read reads the files that a command is asked about: which they are, their events
// as far as a filter lets them through, what they hold in short (an index, the members of a
// compressed file), and what is wrong with them, which it tells.
package read
