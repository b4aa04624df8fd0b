package version

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	tests := map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"without version control": {nil, "0.1.0, go1.26.0"},
		"clean tree": {
			[]debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-21T00:00:00Z"}},
			"0.1.0, commit 0123456789ab of 2026-11-21T00:00:00Z, go1.26.0",
		},
		"changed tree": {
			[]debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.modified", Value: "true"}},
			"0.1.0, commit 0123+local of , go1.26.0",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := describe(&debug.BuildInfo{GoVersion: "go1.26.0", Settings: test.settings})
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestName(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for name, test := range map[string]struct {
		release  string
		settings []debug.BuildSetting
		want     string
	}{
		"nothing known":   {"", nil, "0.1.0"},
		"a commit":        {"", commit, "0123456789ab+local"},
		"a pseudoversion": {"v0.0.0-20261121053321-c5da4ed752b5+dirty", commit, "0123456789ab+local"},
		"a release":       {"v1.2.3", commit, "v1.2.3"},
	} {
		t.Run(name, func(t *testing.T) {
			info := &debug.BuildInfo{Main: debug.Module{Version: test.release}, Settings: test.settings}
			if got := nameOf(info); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
