// Package version tells which build of Pillion is running.
//
// It reads what the Go linker recorded about the module and the commit; it
// knows nothing about protocol versions, which belong to the rooms that speak
// them.
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

// Short names the build in one word, for tables: the release, or else the commit.
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

// commitOf is the commit's short name, with a note of local changes, and its time.
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
