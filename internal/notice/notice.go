// Package notice holds the licences of the software that is compiled into Pillion's
// programs and its web page, for the command licenses, the page, and the bill of
// materials of a release. The texts are collected from the module cache and the npm
// packages by ./collect; libraries that the system links at run time are not part of them.
package notice

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"strings"
)

//go:generate ../../.ci/packages
//go:generate go run ./collect ../..

// Kinds of a Component.
const (
	Go  = "go"
	NPM = "npm"
)

// Pillion and Standard are the modules that every program contains.
const (
	Pillion  = "pillion.dev"
	Standard = "std"
)

// Component is a Go module or an npm package with its licence.
type Component struct {
	// Kind is Go or NPM.
	Kind    string
	Name    string
	Version string
	// License is the SPDX expression.
	License string
	// Text is the licence, with the notices that it requires to be passed on.
	Text string
}

//go:embed notices.txt
var stored string

// All returns the components of all programs and the page.
func All() []Component { return Parse(stored) }

// Packed reports whether a program contains an npm package: the server contains the packages of the page, the agent
// only the package that draws reports.
func Packed(program, name string) bool {
	return program == "pillion-server" || program == "pillion-agent" && name == "preact"
}

// Linked returns the components of the program of that name that info describes.
func Linked(info *debug.BuildInfo, program string) []Component {
	linked := map[string]bool{Pillion: true, Standard: true}
	for _, module := range info.Deps {
		linked[module.Path] = true
	}
	var found []Component
	for _, c := range All() {
		if c.Kind == Go && linked[c.Name] || c.Kind == NPM && Packed(program, c.Name) {
			found = append(found, c)
		}
	}
	return found
}

// heading is the line of a component; components with the same text share it.
var heading = regexp.MustCompile(`^=== (go|npm) (\S+) (\S+) (\S.*)$`)

// Parse reads what Write has written.
func Parse(text string) []Component {
	var found []Component
	begin := 0 // of the components of this text
	var lines []string
	finish := func() {
		for i := begin; i < len(found); i++ {
			found[i].Text = strings.Trim(strings.Join(lines, "\n"), "\n")
		}
		begin, lines = len(found), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			lines = append(lines, line)
			continue
		}
		if strings.TrimSpace(strings.Join(lines, "")) != "" {
			finish()
		}
		found = append(found, Component{Kind: m[1], Name: m[2], Version: m[3], License: m[4]})
	}
	finish()
	return found
}

// Write writes each text once, below the headings of the components that it applies to.
func Write(w io.Writer, components []Component) error {
	written := map[string]bool{}
	for _, first := range components {
		if written[first.Text] {
			continue
		}
		written[first.Text] = true
		for _, c := range components {
			if c.Text != first.Text {
				continue
			}
			if _, err := fmt.Fprintf(w, "=== %s %s %s %s\n", c.Kind, c.Name, c.Version, c.License); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "\n%s\n\n", first.Text); err != nil {
			return err
		}
	}
	return nil
}
