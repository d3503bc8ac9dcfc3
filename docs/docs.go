// Package docs is the user documentation. It is embedded, so that every server has the
// documents of its own version.
package docs

import "embed"

// Files are the pages, which are Markdown, their pictures, and what programs read.
//
//go:embed *.md commands howto llms.txt skill img
var Files embed.FS

// Source is the address of the project's sources, of which the pages link to some.
const Source = "https://github.com/headgate-io/headgate/blob/main/"
