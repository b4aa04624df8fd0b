package session

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
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

// TestCronAroundChanges: in zones whose clocks change in different ways, each start happens exactly
// once for every time at which the wall clock shows it.
func TestCronAroundChanges(t *testing.T) {
	lines := []string{"0 0 * * *", "30 0 * * *", "0 1 * * *", "30 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *", "0 3 * * *", "0 12 * * *", "0 23 * * *",
		"59 23 * * *", "30 * * * *", "*/20 * * * *", "0 */6 * * *", "0 0 1 * *", "0 0 * * 0", "0 9 13 * 5"}
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Africa/Cairo", "America/Santiago", "America/Havana", "Antarctica/Troll",
		"Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca"} {
		zone, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			parsed, err := parseCron(line)
			if err != nil {
				t.Fatal(err)
			}
			fields, first := parsed.(*cron.SpecSchedule), at(t, "2027-01-01T00:00:00Z")
			shows := func(when time.Time) bool {
				l := when.In(zone)
				has := func(mask uint64, n int) bool { return mask>>uint(n)&1 == 1 }
				dom, dow, any := has(fields.Dom, l.Day()), has(fields.Dow, int(l.Weekday())), (fields.Dom|fields.Dow)>>63 == 1
				return has(fields.Minute, l.Minute()) && has(fields.Hour, l.Hour()) && has(fields.Month, int(l.Month())) && (any && dom && dow || !any && (dom || dow))
			}
			spec := Spec{Cron: line, TimeZone: name, Duration: Duration(time.Minute)}
			// The days around each change, and the rest of the year at its end.
			for change := first; change.Year() == 2027; {
				_, change = change.In(zone).ZoneBounds()
				if change.IsZero() || change.Year() > 2027 {
					change = at(t, "2028-01-01T00:00:00Z")
				}
				from, to := change.Add(-36*time.Hour).UTC(), change.Add(36*time.Hour).UTC()
				var got, want []string
				for _, w := range Upcoming(spec, from, to, 1<<20) {
					got = append(got, w.Start.UTC().Format(time.RFC3339))
				}
				for when := from; when.Before(to); when = when.Add(time.Minute) {
					if shows(when) {
						want = append(want, when.Format(time.RFC3339))
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, %q: got %v, want %v", name, line, got, want)
				}
			}
		}
	}
}

// TestSundays: cron calls Sunday 0 or 7.
func TestSundays(t *testing.T) {
	for text, want := range map[string]string{
		"0 9 * * 7": "0 9 * * 0", "0 9 * * 5-7": "0 9 * * 5,6,0", "0 9 * * 1-7/2,3": "0 9 * * 1,3,5,0,3", "0 9 * * 7/2": "", "0 9 * * mon-fri": "0 9 * * mon-fri",
		"0 9 * * 8": "", "0 9 * * 7-7": "0 9 * * 0", "61 9 * * 7": "", "0 9 * * 0-7": "0 9 * * 0-6", "0 9 * * 1-77": "", "0 9 * * 7-": "", "0 9 7 * *": "0 9 7 * *", "0 9 * * -7": "",
	} {
		parsed, err := parseCron(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q is accepted", text)
			}
			continue
		}
		same, failed := parseCron(want)
		if err != nil || failed != nil || !reflect.DeepEqual(parsed, same) {
			t.Errorf("%q: %v, want %q, %v, %v", text, parsed, want, err, failed)
		}
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
