// Package version tells which build of Pillion is running.
//
// It reads what the Go linker recorded about the module and the commit; it
// knows nothing about protocol versions, which belong to the rooms that speak
// them.
package version

import (
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

func describe(info *debug.BuildInfo) string {
	setting := map[string]string{}
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	parts := []string{info.Main.Version}
	if parts[0] == "" {
		parts[0] = "(devel)"
	}
	if revision := setting["vcs.revision"]; revision != "" {
		commit := revision[:min(12, len(revision))]
		if setting["vcs.modified"] == "true" {
			commit += "+local"
		}
		parts = append(parts, fmt.Sprintf("commit %s of %s", commit, setting["vcs.time"]))
	}
	return strings.Join(append(parts, info.GoVersion), ", ")
}
