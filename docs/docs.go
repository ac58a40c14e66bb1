// Package docs holds the pages of the documentation, for the help of the command: who
// installed a binary has no other copy of them.
package docs

import "embed"

// Pages are the pages, by folder and name (guide/report.md), and the schemas, below
// reference/schema. Names are unique without their folder: trainspan help finds pages by them.
//
//go:embed */*.md reference/schema/*.json
var Pages embed.FS
