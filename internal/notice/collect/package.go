package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pillion.dev/internal/notice"
)

// headers are files that begin with the licence of a package, or of the part of it that
// has another one than Apache-2.0, where the package has no licence file.
var headers = map[string]string{"@bufbuild/protobuf": "dist/esm/wire/varint.js"}

// packages returns the npm packages in the page: those in the lock file that are not only
// for development. apache is the text of packages without one.
func packages(folder, apache string) ([]notice.Component, error) {
	content, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		return nil, fmt.Errorf("read package-lock.json: %w", err)
	}
	var all []notice.Component
	for path, p := range lock.Packages {
		_, name, inModules := strings.Cut(path, "node_modules/")
		if !inModules || p.Dev {
			continue
		}
		text, err := licenceOf(filepath.Join(folder, path))
		if err != nil {
			if !strings.Contains(p.License, "Apache-2.0") {
				return nil, fmt.Errorf("package %s %s: %w", name, p.Version, err)
			}
			if text, err = header(filepath.Join(folder, path), headers[name]); err != nil {
				return nil, fmt.Errorf("package %s %s: %w", name, p.Version, err)
			}
			text = strings.Trim(apache+"\n\n"+text, "\n")
		}
		all = append(all, notice.Component{Kind: notice.NPM, Name: name, Version: p.Version, License: strings.Trim(p.License, "()"), Text: text})
	}
	return all, nil
}

// header returns the comment at the beginning of a file; none without one.
func header(folder, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	content, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		return "", err
	}
	var lines []string
	for line := range strings.SplitSeq(string(content), "\n") {
		line, comment := strings.CutPrefix(line, "//")
		if !comment {
			break
		}
		lines = append(lines, strings.TrimPrefix(line, " "))
	}
	return clean(strings.Join(lines, "\n")), nil
}
