// Package docs holds the pages of the documentation, for the help of the command: who
// installed a binary has no other copy of them.
package docs

import "embed"

// Pages are the pages and schemas, by the names of their files.
//
//go:embed *.md schema/*.json
var Pages embed.FS
