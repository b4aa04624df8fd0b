package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure/module"
	"pillion.dev/measure/point"
	"pillion.dev/session"
)

// TestModulesAreListed checks that a client gets each module, also one that has just been
// registered, with its streams and what it costs.
func TestModulesAreListed(t *testing.T) {
	d := module.Register(module.Descriptor{
		Name: "test-hops", Doc: "routers that a packet passed", ID: module.LastID, Bytes: 1,
		Columns: module.Distribution("hops", "", "routers that a packet passed", 0),
		Views:   []point.View{{Title: "Routers", Kind: point.Lines, Stream: "test_hops", Columns: []string{"hops_mean"}, GroupBy: []string{"dst"}}},
	})
	t.Cleanup(d.Unregister)
	answer, err := (&sessions{}).ListPoints(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range answer.Modules {
		columns := map[string]string{}
		for _, c := range m.Streams[0].Columns {
			columns[c.Name] = c.Type
		}
		text := m.Name + ": " + m.Streams[0].Name + " " + m.Cost
		for _, view := range m.Views {
			text += fmt.Sprintf(", %s %s", view.Columns[0], columns[view.Columns[0]])
		}
		got = append(got, text)
	}
	want := []string{
		"delay: flows ", "loss: flows ",
		"round-trip: round_trips , rtt_mean_ns int64, count uint64", "segments: segments , first_mean_ns int64, count uint64",
		"test-hops: test_hops 4 bytes in each mark, before padding, and one row in test_hops each {interval} for each flow, hops_mean float64",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	comparePage(t, &pillionv1.ListPointsResponse{Modules: answer.Modules})
}

// modulesPage has the modules as the API describes them, for the page's test.
const modulesPage = "../../ui/data/testdata/modules.json"

// comparePage compares an answer with the file that the page's test reads.
func comparePage(t *testing.T, answer *pillionv1.ListPointsResponse) {
	t.Helper()
	text, err := protojson.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var value any // protojson varies its blanks, this does not
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	page, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	page = append(page, '\n')
	if *update {
		if err := os.WriteFile(modulesPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if stored, err := os.ReadFile(modulesPage); err != nil || !bytes.Equal(stored, page) {
		t.Errorf("%s differs from the answer (go test ./server/web -run Modules -update writes it): %v", modulesPage, err)
	}
}

// TestSettings checks that a client gets the bounds and values of each setting.
func TestSettings(t *testing.T) {
	answer, err := (&sessions{}).ListPoints(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	settings := session.Settings()
	if len(answer.Settings) != len(settings) {
		t.Fatalf("got %d settings, want %d", len(answer.Settings), len(settings))
	}
	for i, want := range settings {
		got := answer.Settings[i]
		if got.Name != want.Name || got.Default != want.Default || got.Min != want.Min || got.Max != want.Max ||
			len(got.Choices) != len(want.Choices) || len(got.ChoiceDocs) != len(want.ChoiceDocs) ||
			got.Group != want.Group || got.Label != want.Label || (got.Title == "") != (got.Label == "") || got.Help != want.Help || !maps.Equal(got.Words, want.Words) {
			t.Errorf("got %v, want %+v", got, want)
		}
	}
}
