package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"pillion.dev/internal/notice"
)

// builds are what a release contains: the environment, and the programs.
var builds = []struct{ environment, programs string }{
	{"GOARCH=amd64 CGO_ENABLED=1", "./cmd/..."},
	{"GOARCH=arm64 CGO_ENABLED=0", "./cmd/pillion-agent"},
	{"GOARCH=arm CGO_ENABLED=0", "./cmd/pillion-agent"},
	{"GOARCH=mipsle CGO_ENABLED=0", "./cmd/pillion-agent"},
}

// modules returns the Go modules with packages in any build, and the standard library.
func modules(root string) ([]notice.Component, error) {
	text, err := licenceOf(goroot())
	if err != nil {
		return nil, err
	}
	found := map[string]notice.Component{
		notice.Standard: {Kind: notice.Go, Name: notice.Standard, Version: "-", License: "BSD-3-Clause", Text: text},
	}
	for _, build := range builds {
		command := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}", build.programs)
		command.Dir, command.Stderr = root, os.Stderr
		command.Env = append(os.Environ(), append(strings.Fields(build.environment), "GOOS=linux", "GOFLAGS=")...)
		list, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", build.programs, err)
		}
		for line := range strings.Lines(string(list)) {
			words := strings.Fields(line)
			if len(words) != 3 || found[words[0]].Name != "" { // ours has no version
				continue
			}
			if found[words[0]], err = module(words[0], words[1], words[2]); err != nil {
				return nil, err
			}
		}
	}
	var all []notice.Component
	for _, c := range found {
		all = append(all, c)
	}
	return all, nil
}

func goroot() string {
	out, _ := exec.Command("go", "env", "GOROOT").Output() // an empty answer has no licence
	return strings.TrimSpace(string(out))
}

func module(path, version, folder string) (notice.Component, error) {
	text, err := licenceOf(folder)
	if err != nil {
		return notice.Component{}, fmt.Errorf("module %s %s: %w", path, version, err)
	}
	license := spdx(text)
	if license == "" {
		return notice.Component{}, fmt.Errorf("module %s %s: unknown licence in %s", path, version, filepath.Base(folder))
	}
	return notice.Component{Kind: notice.Go, Name: path, Version: version, License: license, Text: text}, nil
}

// spdx recognises licences by their words; the first one is the module's own.
func spdx(text string) string {
	words := strings.Join(strings.Fields(text), " ")
	var first string
	at := len(words)
	for _, l := range []struct{ id, words string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License, version 2.0"},
		{"MPL-2.0", "Mozilla Public License Version 2.0"},
		{"MIT", "Permission is hereby granted, free of charge"},
		{"ISC", "Permission to use, copy, modify, and/or distribute"},
		{"BSD-3-Clause", "Redistribution and use in source and binary forms"},
	} {
		if i := strings.Index(words, l.words); i >= 0 && i < at {
			first, at = l.id, i
		}
	}
	if first == "BSD-3-Clause" && !strings.Contains(words, "to endorse or promote products") {
		return "BSD-2-Clause"
	}
	return first
}
