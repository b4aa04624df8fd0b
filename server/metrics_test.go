package server_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/server"
	"pillion.dev/server/notify"
	"pillion.dev/server/otlp"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

// The table is between these lines of the file.
const (
	metricsFile  = "../docs/reference/metrics.md"
	metricsBegin = "<!-- metrics: begin, written by go test ./server -update from the metrics of a server -->\n"
	metricsEnd   = "<!-- metrics: end -->\n"
)

// TestMetricsReference compares the table in docs/reference/metrics.md with the metrics of a server with an
// agent, a session and rows of a pair; -update writes it.
func TestMetricsReference(t *testing.T) {
	s := startWith(t, t.TempDir()+"/data", server.Config{Notify: []notify.Receiver{{Name: "hook", Webhook: notify.Webhook{URL: "http://127.0.0.1:1/"}}},
		OTLP: otlp.Config{URL: "http://127.0.0.1:1"}})
	agent := s.agent(t, "b")
	if _, err := s.client(t, s.operator).Sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{
		Spec: &pillionv1.SessionSpec{Name: "any", Sources: []string{"site=a"}, Destinations: []string{"site=b"}},
	}); err != nil {
		t.Fatal(err)
	}
	var text string
	sequence := uint64(0)
	within(t, "the metrics have a pair and a session", func() bool {
		row := flows.Row{End: time.Now(), Interval: time.Second, Session: "any", Source: "a", Destination: "b"}
		if err := agent.Send(t.Context(), batchOf(t, &measure.Flows, sequence, row.Sample(nil))); err != nil {
			return false
		}
		sequence++
		if err := agent.Report([]byte(`{"agent":"b","instance":"1","clock":{"synchronised":true,"max_error_ns":1500}}`)); err != nil {
			return false
		}
		text = s.metrics(t)
		return strings.Contains(text, "pillion_packets_total{") && strings.Contains(text, `pillion_agent_clock_error_seconds{agent="b"} 1.5e-06`) && strings.Contains(text, "pillion_sessions{")
	})
	checkDashboardMetrics(t, text)
	want := metricsReference(t, text)
	document, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(document), metricsBegin)
	got, after, ends := strings.Cut(rest, metricsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no table between %s and %s", metricsFile, metricsBegin, metricsEnd)
	}
	if *update {
		if err := os.WriteFile(metricsFile, []byte(before+metricsBegin+want+metricsEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("%s differs from the metrics: run go test ./server -update\n%s", metricsFile, want)
	}
}

// metrics returns the server's metrics in the text format of Prometheus.
func (s *target) metrics(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.welcome.HTTP+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.operator)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s: %v", answer.Status, err)
	}
	return string(text)
}

var (
	metricHelp   = regexp.MustCompile(`(?m)^# HELP (pillion_\w+) (.*)\n# TYPE \w+ (\w+)\n(.*)$`)
	metricLabel  = regexp.MustCompile(`(\w+)="`)
	metricUnits  = []string{"seconds", "bytes", "packets", "rows", "batches", "commits", "connections", "agents", "sessions", "addresses", "points", "requests"}
	metricOthers = map[string]string{ // whose names have no unit
		"pillion_alarm_notifications_total": "notifications", "pillion_alarm_notifications_failed_total": "attempts",
		"pillion_alarm_notifications_refused_total": "notifications", "pillion_alarm_notifications_waiting": "groups",
		"pillion_alarms": "alarms", "pillion_limit": "items", "pillion_limit_used": "items", "pillion_limit_refused_total": "items",
		"pillion_ingest_duplicates_total": "batches", "pillion_ingest_rejected_total": "batches", "pillion_ingest_failed_total": "batches",
		"pillion_live_missed_total": "batches", "pillion_bus_busy_total": "batches", "pillion_http_refused_calls_total": "calls",
		"pillion_own_rows_dropped_total": "rows", "pillion_sent_reports_total": "flows", "pillion_sent_reports_dropped_total": "flows", "pillion_ingest_unsupported_total": "batches", "pillion_ingest_refused_total": "batches",
		"pillion_refused_total": "requests",
	}
)

// metricsReference returns the table of metrics in the text format of Prometheus,
// which is sorted by name.
func metricsReference(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| metric | type | labels | unit | meaning |\n|---|---|---|---|---|\n")
	found := metricHelp.FindAllStringSubmatch(text, -1)
	if len(found) != strings.Count(text, "# HELP pillion_") {
		t.Errorf("read %d metrics of %d", len(found), strings.Count(text, "# HELP pillion_"))
	}
	for _, m := range found {
		unit, words := metricOthers[m[1]], strings.Split(strings.TrimSuffix(m[1], "_total"), "_")
		if i := slices.Index(metricUnits, words[len(words)-1]); unit == "" && i >= 0 {
			unit = metricUnits[i]
		}
		if unit == "" {
			t.Errorf("%s has no unit", m[1])
		}
		var labels []string
		for _, label := range metricLabel.FindAllStringSubmatch(m[4], -1) {
			if label[1] != "le" {
				labels = append(labels, "`"+label[1]+"`")
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m[1], m[3], strings.Join(labels, ", "), unit, m[2])
	}
	return b.String()
}
