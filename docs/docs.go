// Package docs holds the pages of the documentation for trainspan help. A user
// who installed only the binary has no other copy.
package docs

import "embed"

// Pages holds the pages by folder and name (guide/report.md), and the schemas
// below reference/schema. Names are unique without their folder, because
// trainspan help finds pages by name.
//
//go:embed */*.md reference/schema/*.json
var Pages embed.FS
