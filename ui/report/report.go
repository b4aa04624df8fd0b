// Package report writes the report of a router profile: one HTML file that opens without a network. The file holds the
// profile as JSON, which a script built from the TypeScript beside this file draws, and the same as text for browsers
// that run no scripts.
package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
)

//go:embed dist/router.js
var script string

//go:embed dist/router.css
var style string

// The policy lets the browser load nothing.
const file = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>%s</title>
<style>%s</style>
</head>
<body>
<main></main>
<noscript><pre>%s</pre></noscript>
<script type="application/json" id="profile">%s</script>
<script>%s</script>
</body>
</html>
`

// Write writes the report of a profile, which profile.ts describes. The text is what a browser without scripts shows.
func Write(w io.Writer, title, text string, profile any) error {
	data, err := json.Marshal(profile) // < is \u003c in it, so that it ends no element
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, file, html.EscapeString(title), style, html.EscapeString(text), data, script)
	return err
}
