// Command collect writes the licences of what Pillion's programs and page contain into
// notices.txt: the licences of Go modules from the module cache, for all architectures that are
// built, and the licences of npm packages from ui/node_modules. A component without a licence,
// or with one that it does not recognise, is an error.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pillion.dev/internal/notice"
)

const target = "notices.txt"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: collect REPOSITORY")
		os.Exit(2)
	}
	if err := collect(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "collect:", err)
		os.Exit(1)
	}
}

func collect(root string) error {
	own, err := licenceOf(root)
	if err != nil {
		return err
	}
	all := []notice.Component{{Kind: notice.Go, Name: notice.Pillion, Version: "-", License: "Apache-2.0", Text: own}}
	modules, err := modules(root)
	if err != nil {
		return err
	}
	packages, err := packages(filepath.Join(root, "ui"), own)
	if err != nil {
		return err
	}
	others := append(modules, packages...)
	slices.SortFunc(others, func(a, b notice.Component) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	var text bytes.Buffer
	if err := notice.Write(&text, append(all, others...)); err != nil {
		return err
	}
	return os.WriteFile(target, bytes.TrimRight(text.Bytes(), "\n"), 0o644)
}

// licenceFiles are files whose texts have to be passed on, lower-case prefixes.
var licenceFiles = []string{"license", "licence", "copying", "notice", "patents"}

// licenceOf joins the licence files of a folder. What is no text, such as a program or a
// table, is none.
func licenceOf(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		fits := slices.ContainsFunc(licenceFiles, func(p string) bool { return strings.HasPrefix(name, p) })
		end := filepath.Ext(name)
		if !fits || e.IsDir() || end == ".csv" || end == ".mjs" || end == ".go" || strings.HasPrefix(name, "license-logo") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, clean(string(content)))
	}
	if len(texts) == 0 {
		return "", fmt.Errorf("%s: no licence", folder)
	}
	return strings.Join(texts, "\n\n"), nil
}

// clean makes texts equal that differ only in spaces at the end of lines.
func clean(text string) string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		lines = append(lines, strings.TrimRight(line, " \t\r\f"))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
