// Package version identifies the running build of Pillion.
//
// It reads the module and commit recorded by the Go linker; protocol versions belong to
// the packages that implement the protocols.
package version

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// String describes the build in one line: release, commit, commit
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
	if commit, _ := commitOf(info); commit != "" && !tagged(info) {
		return commit
	}
	return releaseOf(info)
}

// tagged reports whether the build is of a release's own commit.
func tagged(info *debug.BuildInfo) bool {
	return strings.HasPrefix(info.Main.Version, "v") && !strings.HasPrefix(info.Main.Version, "v0.0.0-")
}

func releaseOf(info *debug.BuildInfo) string {
	if tagged(info) {
		return info.Main.Version
	}
	return Release
}

func describe(info *debug.BuildInfo) string {
	parts := []string{releaseOf(info)}
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
