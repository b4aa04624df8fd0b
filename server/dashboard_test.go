package server_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/server"
)

var dashboardMetric = regexp.MustCompile(`\b(pillion|process)_[a-z_]+`)

// dashboards are those of Grafana, by file.
func dashboards(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../dist/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// checkDashboardMetrics checks that the dashboards name metrics that there are.
func checkDashboardMetrics(t *testing.T, text string) {
	t.Helper()
	for file, dashboard := range dashboards(t) {
		for _, name := range dashboardMetric.FindAllString(dashboard, -1) {
			if !strings.Contains(text, "\n# TYPE "+strings.TrimSuffix(name, "_bucket")+" ") {
				t.Errorf("%s names %s, which is no metric", file, name)
			}
		}
	}
}

// TestArchiveDashboard: the server answers what the dashboard of the archive asks, with the fields that it shows.
func TestArchiveDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct {
				URL     string
				Root    string                      `json:"root_selector"`
				Options struct{ Data string }       `json:"url_options"`
				Columns []struct{ Selector string } `json:"columns"`
			}
		}
	}
	if err := json.Unmarshal([]byte(dashboards(t)["pillion-archive.json"]), &dashboard); err != nil {
		t.Fatal(err)
	}
	s := startWith(t, t.TempDir()+"/data", server.Config{})
	s.knownDelays(t)
	now := time.Now().UTC()
	variables := strings.NewReplacer("$source", "a", "$destination", "b", "$session", "",
		"${__from:date:iso}", now.Add(-time.Hour).Format(time.RFC3339), "${__to:date:iso}", now.Add(time.Minute).Format(time.RFC3339))
	for _, panel := range dashboard.Panels {
		target := panel.Targets[0]
		status, text := s.call(t, target.URL, s.operator, variables.Replace(target.Options.Data))
		var answer pillionv1.WindowsResponse
		if err := protojson.Unmarshal([]byte(text), &answer); status != http.StatusOK || err != nil || len(answer.Windows) != 1 {
			t.Errorf("%s: status %d, %v: %s", panel.Title, status, err, text)
			continue
		}
		if list := answer.ProtoReflect().Descriptor().Fields().ByJSONName(target.Root); list == nil || !list.IsList() || len(target.Columns) < 2 {
			t.Errorf("%s: %s is no list in the answer, or has no columns", panel.Title, target.Root)
		}
		for _, column := range target.Columns {
			if !hasField(answer.Windows[0].ProtoReflect().Descriptor(), column.Selector) {
				t.Errorf("%s: a window has no field %s", panel.Title, column.Selector)
			}
		}
	}
}

// hasField reports whether a message has a field at a path of JSON names.
func hasField(message protoreflect.MessageDescriptor, path string) bool {
	name, rest, nested := strings.Cut(path, ".")
	field := message.Fields().ByJSONName(name)
	if field == nil {
		return false
	}
	return !nested || field.Message() != nil && hasField(field.Message(), rest)
}
