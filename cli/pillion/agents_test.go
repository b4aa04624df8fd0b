package pillion

import (
	"testing"

	"pillion.dev/api/pillionv1"
)

// Labels that wait for approval are counted for people; CSV has those that count.
func TestLabelsToApprove(t *testing.T) {
	for _, row := range []struct {
		name, shown, plain string
		agent              *pillionv1.Agent
	}{
		{"none", "-", "", &pillionv1.Agent{}},
		{"approved only", "site=north", "site=north", &pillionv1.Agent{Labels: map[string]string{"site": "north"}}},
		{"claimed only", "(+1 to approve)", "", &pillionv1.Agent{ClaimedLabels: map[string]string{"site": "north"}}},
		{"both", "site=north (+2 to approve)", "site=north", &pillionv1.Agent{Labels: map[string]string{"site": "north"}, ClaimedLabels: map[string]string{"site": "south", "floor": "2"}}},
		{"revoked", "-", "", &pillionv1.Agent{State: "revoked", ClaimedLabels: map[string]string{"site": "north"}}},
	} {
		if c := labelCell(row.agent); c.shown != row.shown || c.plain != row.plain {
			t.Errorf("%s: %q and %q, want %q and %q", row.name, c.shown, c.plain, row.shown, row.plain)
		}
	}
}

// Changes and plans show the authentication of marks.
func TestSpecFactsHaveAuthentication(t *testing.T) {
	for setting, want := range map[string]string{"auto": "on", "on": "on", "off": "off", "": ""} {
		f := facts{}
		specFacts(&f, &pillionv1.SessionSpec{Authentication: setting})
		got := ""
		for _, fact := range f {
			if fact[0] == "authentication" {
				got = fact[1]
			}
		}
		if got != want {
			t.Errorf("authentication %q: %q, want %q", setting, got, want)
		}
	}
	if got, want := specChanges(&pillionv1.SessionSpec{Authentication: "on"}, &pillionv1.SessionSpec{Authentication: "off"}), "authentication on -> off"; got != want {
		t.Errorf("change: %q, want %q", got, want)
	}
}
