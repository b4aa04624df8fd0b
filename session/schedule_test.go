package session

import (
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestUpcoming(t *testing.T) {
	for _, row := range []struct {
		name     string
		spec     Spec
		from, to string
		want     string // starts/ends in UTC
	}{
		{"at once", Spec{}, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", ""},
		{"once", Spec{Start: at(t, "2026-01-02T00:00:00Z"), Duration: Duration(time.Hour)}, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "01-02T00:00/01-02T01:00"},
		{"once, in the past", Spec{Start: at(t, "2025-01-02T00:00:00Z")}, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", ""},
		{"at the first moment", Spec{Start: at(t, "2026-01-01T00:00:00Z"), Duration: Duration(time.Hour)}, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "01-01T00:00/01-01T01:00"},
		{"cron in UTC", Spec{Cron: "30 8 * * 1-5", Duration: Duration(time.Hour)}, "2026-01-02T00:00:00Z", "2026-01-06T00:00:00Z", "01-02T08:30/01-02T09:30 01-05T08:30/01-05T09:30"},
		{"cron from its start on", Spec{Cron: "0 * * * *", Duration: Duration(time.Minute), Start: at(t, "2026-01-01T02:00:00Z")}, "2026-01-01T00:00:00Z", "2026-01-01T04:00:00Z", "01-01T02:00/01-01T02:01 01-01T03:00/01-01T03:01"},
		{"cron in a zone", Spec{Cron: "0 8 * * *", TimeZone: "Asia/Kolkata", Duration: Duration(time.Hour)}, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "01-01T02:30/01-01T03:30"},
		{"a run ends where the next begins", Spec{Cron: "0 * * * *", Duration: Duration(2 * time.Hour)}, "2026-01-01T00:30:00Z", "2026-01-01T02:00:00Z", "01-01T01:00/01-01T02:00"},
		// Europe/Berlin: on 29 March 2026 02:00 becomes 03:00, on 25 October 03:00 becomes 02:00.
		{"a time that clocks skip", Spec{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Duration: Duration(time.Hour)}, "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z",
			"03-28T01:30/03-28T02:30 03-30T00:30/03-30T01:30"},
		{"a time that comes twice", Spec{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Duration: Duration(time.Minute)}, "2026-10-25T00:00:00Z", "2026-10-26T00:00:00Z",
			"10-25T00:30/10-25T00:31 10-25T01:30/10-25T01:31"},
		{"wall clock across the change", Spec{Cron: "0 8 * * *", TimeZone: "Europe/Berlin", Duration: Duration(time.Hour)}, "2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z",
			"03-28T07:00/03-28T08:00 03-29T06:00/03-29T07:00"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for _, w := range Upcoming(row.spec, at(t, row.from), at(t, row.to), 100) {
				got = append(got, w.Start.UTC().Format("01-02T15:04")+"/"+w.End.UTC().Format("01-02T15:04"))
			}
			if text := strings.Join(got, " "); text != row.want {
				t.Errorf("got %s\nwant %s", text, row.want)
			}
		})
	}
}

func TestClockNotes(t *testing.T) {
	for _, row := range []struct{ name, cron, zone, want string }{
		{"both changes", "30 2 * * *", "Europe/Berlin", "on 2026-03-29 clocks in Europe/Berlin change: the start at 02:30 is skipped; " +
			"on 2026-10-25 clocks in Europe/Berlin change: the start at 02:30 occurs twice"},
		{"other hour", "30 4 * * *", "Europe/Berlin", ""},
		{"first moment that is skipped", "0 2 * 3 *", "Europe/Berlin", "on 2026-03-29 clocks in Europe/Berlin change: the start at 02:00 is skipped"},
		{"first moment that is not", "0 3 * 3 *", "Europe/Berlin", ""},
		{"other day", "30 2 * * 1", "Europe/Berlin", ""},
		{"no changes", "30 2 * * *", "Asia/Kolkata", ""},
		{"no cron", "", "Europe/Berlin", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			notes := ClockNotes(Spec{Cron: row.cron, TimeZone: row.zone}, at(t, "2026-01-01T00:00:00Z"))
			if got := strings.Join(notes, "; "); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestUpcomingIsBounded(t *testing.T) {
	spec := Spec{Cron: "* * * * *", Duration: Duration(time.Second)}
	if got := Upcoming(spec, cronReference, cronReference.AddDate(10, 0, 0), 7); len(got) != 7 {
		t.Errorf("got %d runs, want 7", len(got))
	}
}

func TestMissed(t *testing.T) {
	hourly := Spec{Cron: "0 * * * *", Duration: Duration(10 * time.Minute)}
	for _, row := range []struct {
		name       string
		spec       Spec
		after, now string
		missed     int
		late       string
	}{
		{"nothing", hourly, "2026-01-01T00:01:00Z", "2026-01-01T00:59:00Z", 0, ""},
		{"three are over", hourly, "2026-01-01T00:01:00Z", "2026-01-01T03:30:00Z", 3, ""},
		{"one still lasts", hourly, "2026-01-01T00:01:00Z", "2026-01-01T02:05:00Z", 1, "2026-01-01T02:00:00Z"},
		{"just over", hourly, "2026-01-01T00:01:00Z", "2026-01-01T01:10:00Z", 1, ""},
		{"once, without an end", Spec{Start: at(t, "2026-01-01T00:00:00Z")}, "2025-12-01T00:00:00Z", "2027-01-01T00:00:00Z", 0, "2026-01-01T00:00:00Z"},
		{"once, over", Spec{Start: at(t, "2026-01-01T00:00:00Z"), Duration: 1e9}, "2025-12-01T00:00:00Z", "2027-01-01T00:00:00Z", 1, ""},
		{"very many", Spec{Cron: "* * * * *", Duration: 1e9}, "2026-01-01T00:00:00Z", "2026-01-03T00:00:30Z", missedMax, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			missed, late := Missed(row.spec, at(t, row.after), at(t, row.now))
			if len(missed) != row.missed {
				t.Errorf("%d missed, want %d: %v", len(missed), row.missed, missed)
			}
			if late == nil != (row.late == "") || late != nil && !late.Start.Equal(at(t, row.late)) {
				t.Errorf("late is %v, want %q", late, row.late)
			}
		})
	}
}
