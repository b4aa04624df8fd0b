// Package ui is the web page: TypeScript in the folders below, built by Vite into
// dist, which this package carries inside the server. The page speaks to the API
// only, by a client generated from the same .proto files as everybody's.
package ui

import (
	"embed"
	"io/fs"
)

//go:generate ../.ci/packages
//go:generate npm run --silent generate
//go:generate npm run --silent build -- --logLevel warn
//go:generate go run ./pack dist

//go:embed all:dist
var dist embed.FS

// Files are those of the built page; index.html is where it begins.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // dist is part of this package
	}
	return files
}
