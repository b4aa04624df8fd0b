//go:build long

package server_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	_ "pillion.dev/archive/clickhouse" // registers clickhouse:
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/server"
)

// TestLongArchivesAnswerAlike: two servers, one with DuckDB and one with ClickHouse, get the same batches. After a restart, so that
// nothing is answered from memory that the archive does not have, they answer what the page, the CLI and scripts ask
// with the same JSON and the same exports.
func TestLongArchivesAnswerAlike(t *testing.T) {
	begin := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	batches := measured(t, begin)
	var servers []*target
	var graphs []string
	for _, config := range []server.Config{{}, {Archive: clickhousetest.Start(t).URL("alike")}} {
		folder := t.TempDir()
		s := startWith(t, folder, config)
		store(t, s, batches)
		if _, err := s.client(t, s.operator).Data.SetRetention(t.Context(), &pillionv1.SetRetentionRequest{Stream: "hops", Retention: &pillionv1.Retention{Rows: 1000}}); err != nil {
			t.Fatal(err)
		}
		graphs = append(graphs, canonical(t, s.post(t, "TopologyService/GetTopology", nil)))
		s.stop()
		s = startWith(t, folder, config)
		servers = append(servers, s)
		paths := func(graph string) string { return regexp.MustCompile(`(?s)"hops":.*?]`).FindString(graph) }
		within(t, "the path is restored from the archive", func() bool {
			return paths(canonical(t, s.post(t, "TopologyService/GetTopology", nil))) == paths(graphs[len(graphs)-1])
		})
	}
	if graphs[0] != graphs[1] || !strings.Contains(graphs[0], "10.0.0.9") {
		t.Errorf("topology: %s", difference(graphs[0], graphs[1]))
	}
	questions := asked(begin)
	for name, ask := range asked(begin) {
		if name == "query" || name == "streams" {
			continue // SQL is refused by ClickHouse, and rows are counted otherwise
		}
		questions["scoped "+name] = func(t *testing.T, s *target) string { return ask(t, s.scoped(t, "b", "a:b")) }
	}
	for name, ask := range questions {
		t.Run(name, func(t *testing.T) {
			var answers []string
			for _, s := range servers {
				answers = append(answers, ask(t, s))
			}
			if answers[0] != answers[1] {
				t.Errorf("%s", difference(answers[0], answers[1]))
			}
			if len(answers[0]) < 20 {
				t.Errorf("an answer without rows: %s", answers[0])
			}
		})
	}
}
