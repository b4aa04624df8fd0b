package web

import (
	"testing"

	"pillion.dev/session"
)

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
			len(got.Choices) != len(want.Choices) || len(got.ChoiceDocs) != len(want.ChoiceDocs) {
			t.Errorf("got %v, want %+v", got, want)
		}
	}
}
