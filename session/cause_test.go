package session

import "testing"

func TestCauseIn(t *testing.T) {
	const hidden, silent = "hidden by x (1): packets on eth0 do not reach it", "not reachable: path to 192.0.2.1; and 3 more paths"
	for _, row := range []struct {
		name, text string
		cause      Cause
		want       string
	}{
		{"nothing", "", Hidden, ""},
		{"alone", hidden, Hidden, hidden},
		{"another", hidden, NoRoom, ""},
		{"first", hidden + "; " + silent, Hidden, hidden},
		{"last", hidden + "; " + silent, NotReachable, silent},
		{"between others", "some limit; " + silent + "; " + hidden, NotReachable, silent},
		{"only mentioned", "it is hidden by x", Hidden, ""},
		{"an error", "refused by the policy of this host: default of x: no", Refused, "refused by the policy of this host: default of x: no"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.cause.In(row.text); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
			if row.want != "" && Advice(row.text) == "" {
				t.Error("no advice")
			}
		})
	}
	if advice := Advice("some other limit"); advice != "" {
		t.Errorf("advice about an unknown limit: %q", advice)
	}
}
