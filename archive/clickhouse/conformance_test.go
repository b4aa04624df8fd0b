package clickhouse

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"pillion.dev/archive"
	"pillion.dev/archive/archivetest"
	"pillion.dev/internal/test/clickhousetest"
)

// opener opens the archive of a folder: a database of the servers.
func opener(url func(database string) string) archivetest.Open {
	return func(t testing.TB, folder string) archive.Archive {
		t.Helper()
		sum := fnv.New64()
		sum.Write([]byte(folder))
		return open(t, url(fmt.Sprintf("t%x", sum.Sum64())))
	}
}

func open(t testing.TB, url string) *Archive {
	t.Helper()
	_, location, _ := strings.Cut(url, ":")
	a, err := Open(location, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestConformance(t *testing.T) { archivetest.Run(t, opener(clickhousetest.Start(t).URL)) }
