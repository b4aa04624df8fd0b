// Package ui is the web page: TypeScript in the folders below, built by Vite into
// dist, which this package embeds. The page uses only the API, with a client generated
// from the .proto files.
//
// The folders: view has a file for each page, data what pages show and how it is queried, chart
// draws, part has elements of pages, gen has the generated client, report
// is the report of a router in one file, and pack is a step of the build.
package ui

import (
	"embed"
	"io/fs"
)

//go:generate ../.ci/packages
//go:generate npm run --silent generate
//go:generate npm run --silent build -- --logLevel warn
//go:generate npm run --silent report -- --logLevel warn
//go:generate go run ./pack dist

//go:embed all:dist
var dist embed.FS

// Files returns the files of the built page; its entry is index.html.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // dist is part of this package
	}
	return files
}
