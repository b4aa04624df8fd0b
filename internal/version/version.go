// Package version identifies the running build of Pillion.
//
// It reads the module and commit recorded by the Go linker; protocol versions belong to
// the packages that implement the protocols.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

// String describes the build in one line: module version, commit, commit
// time, whether the tree had local changes, and the Go release.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown build"
	}
	return describe(info)
}

// Short identifies the build in one word, for tables: the release, or else the commit.
func Short() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return nameOf(info)
}

func nameOf(info *debug.BuildInfo) string {
	release := info.Main.Version
	if commit, _ := commitOf(info); commit != "" && (release == "" || strings.HasPrefix(release, "v0.0.0-")) {
		return commit
	}
	return cmp.Or(release, "(devel)")
}

func describe(info *debug.BuildInfo) string {
	parts := []string{cmp.Or(info.Main.Version, "(devel)")}
	if commit, at := commitOf(info); commit != "" {
		parts = append(parts, fmt.Sprintf("commit %s of %s", commit, at))
	}
	return strings.Join(append(parts, info.GoVersion), ", ")
}

// commitOf returns the commit's short name, marked if there were local changes, and its
// time.
func commitOf(info *debug.BuildInfo) (commit, at string) {
	setting := map[string]string{}
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	revision := setting["vcs.revision"]
	if revision == "" {
		return "", ""
	}
	commit = revision[:min(12, len(revision))]
	if setting["vcs.modified"] == "true" {
		commit += "+local"
	}
	return commit, setting["vcs.time"]
}
