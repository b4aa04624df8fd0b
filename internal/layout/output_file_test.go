package layout

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// creates is a call that creates, truncates or replaces a file.
var creates = regexp.MustCompile(`\bos\.(Create|CreateTemp|WriteFile|Rename)\(|\bos\.OpenFile\(.*\bO_(CREATE|TRUNC)\b`)

// notNamed are places that create files which no user names, with the reason. Whoever writes a
// file that a user names uses package outfile, which neither replaces a device nor leaves half a
// file.
var notNamed = []struct{ place, reason string }{
	{"internal/outfile", "it is the place"},
	{"internal/store", "small files of data directories, which are replaced atomically"},
	{"internal/clickhouse", "the configuration of a server that tests start"},
	{"internal/notice/collect", "a step of the build"},
	{"internal/test", "what tests of several rooms start"},
	{"bus/bustest", "what tests of several rooms start"},
	{"cli/commandtest", "what tests of the programs start, and -update"},
	{"study/bench", "experiments, never shipped"},
	{"lab", "files of a lab's own folder, and settings in /proc/sys"},
	{"ui/pack", "a step of the page's build"},
	{"server/backup", "a backup is a new folder, whose files must not exist, and a data directory"},
	{"server/folder.go", "the lock and the format of the data directory"},
	{"probe/hook/owner.go", "locks of devices"},
	{"archive/duckdb/acknowledged.go", "a file beside the archive"},
	{"probe/hook/attach.go", "which program a process leaves on a device"},
	{"agent/spool", "files of the spool"},
	{"oml/agent/mark.go", "a file of the spool"},
	{"study/experiment/journal.go", "a result folder's journal, to which lines are appended"},
	{"study/experiment/runner/lock.go", "a lock"},
}

func TestFilesAreCreatedInOnePlace(t *testing.T) {
	used := map[string]bool{}
	eachWatched(t, nil, func(name string, text []byte) {
		if path.Ext(name) != ".go" {
			return
		}
	lines:
		for n, line := range strings.Split(string(text), "\n") {
			if !creates.MatchString(line) {
				continue
			}
			for _, other := range notNamed {
				if name == other.place || strings.HasPrefix(name, other.place+"/") {
					used[other.place] = true
					continue lines
				}
			}
			t.Errorf("%s:%d: creates a file; use package outfile, or say why no user names it", name, n+1)
		}
	})
	for _, other := range notNamed {
		if !used[other.place] || other.reason == "" {
			t.Errorf("%s creates no file, or has no reason", other.place)
		}
	}
}
