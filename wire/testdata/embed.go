// Package testdata embeds the golden vectors, for package vectors to load. C,
// Python and Lua read the file itself.
package testdata

import _ "embed"

// Vectors is the content of vectors.json.
//
//go:embed vectors.json
var Vectors []byte
