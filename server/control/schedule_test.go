package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pillion.dev/session"
)

// The time in a synctest bubble begins at midnight UTC on 1 January 2000.

func runText(runs []Run) string {
	var lines []string
	for _, r := range runs {
		end := "-"
		if !r.End.IsZero() {
			end = r.End.UTC().Format("15:04")
		}
		lines = append(lines, r.Start.UTC().Format("15:04")+"/"+end+" "+r.State)
	}
	return strings.Join(lines, ", ")
}

func hourly() session.Spec {
	spec := web()
	spec.Cron, spec.Duration = "0 * * * *", session.Duration(10*time.Minute)
	return spec
}

// dayOf returns the runs of the first hours.
func (b *testbed) dayOf(hours int) string {
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	return runText(b.control.Runs(midnight, midnight.Add(time.Duration(hours)*time.Hour), "web"))
}

func TestScheduleRuns(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		s := b.create(hourly())
		if s.State != Scheduled || s.NextStart.UTC().Hour() != 1 {
			t.Errorf("state %s, next start %v", s.State, s.NextStart)
		}
		b.pass(62 * time.Minute)
		s = b.state("web", Running)
		if s.Ends.UTC().Format("15:04") != "01:10" || s.NextStart.UTC().Hour() != 2 {
			t.Errorf("end %v, next start %v", s.Ends, s.NextStart)
		}
		b.takeJournal()
		b.pass(10 * time.Minute)
		b.state("web", Scheduled)
		if got := b.takeJournal(); got != "h1\nh2" {
			t.Errorf("the run ended as\n%s", got)
		}
		if got := b.dayOf(4); got != "01:00/01:10 done, 02:00/02:10 planned, 03:00/03:10 planned" {
			t.Errorf("runs %s", got)
		}
	})
}

func TestRunOnceForADuration(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		spec := web()
		spec.Start, spec.Duration = time.Now().Add(time.Hour), session.Duration(time.Minute)
		if s := b.create(spec); s.State != Scheduled {
			t.Errorf("state %s", s.State)
		}
		b.pass(time.Hour + 30*time.Second)
		b.state("web", Running)
		b.pass(time.Minute)
		b.state("web", Ended)
		if got := b.dayOf(4); got != "01:00/01:01 done" {
			t.Errorf("runs %s", got)
		}
	})
}

func TestScheduleAfterServerRestart(t *testing.T) {
	for _, row := range []struct {
		name         string
		from, length time.Duration // when the server is away
		state, runs  string
		missed       int
		reason       string
	}{
		{"between runs", 20 * time.Minute, 10 * time.Minute, Scheduled, "01:00/01:10 planned, 02:00/02:10 planned", 0, ""},
		{"over two starts", 50 * time.Minute, 90 * time.Minute, Scheduled, "01:00/01:10 missed, 02:00/02:10 missed", 1, "its start was missed: the server was away"},
		{"at a start", 59 * time.Minute, 5 * time.Minute, Running, "01:04/01:10 running, 02:00/02:10 planned", 1, "it started 4m0s late: the server was away"},
		{"inside a run", 63 * time.Minute, 2 * time.Minute, Running, "01:00/01:10 running, 02:00/02:10 planned", 0, ""},
		{"over the end of a run", 63 * time.Minute, 20 * time.Minute, Scheduled, "01:00/01:10 done, 02:00/02:10 planned", 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			bed(t, func(b *testbed) {
				b.join("h1", "h2")
				b.create(hourly())
				start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
				b.pass(time.Until(start.Add(row.from)))
				b.stop()
				b.pass(row.length)
				b.boot()
				b.pass(20 * time.Second)
				s := b.state("web", row.state)
				if s.Reason != row.reason {
					t.Errorf("reason %q, want %q", s.Reason, row.reason)
				}
				if got := b.dayOf(3); got != row.runs {
					t.Errorf("runs %s, want %s", got, row.runs)
				}
				if got := b.eventCount("start-missed"); got != row.missed {
					t.Errorf("%d events of missed starts, want %d", got, row.missed)
				}
			})
		})
	}
}

func TestStartsDuringAPauseAreMissed(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(hourly())
		if _, err := b.control.Pause("web"); err != nil {
			t.Fatal(err)
		}
		b.pass(65 * time.Minute)
		if _, err := b.control.Resume("web"); err != nil {
			t.Fatal(err)
		}
		b.state("web", Scheduled)
		if got := b.dayOf(3); got != "01:00/01:10 missed, 02:00/02:10 planned" {
			t.Errorf("runs %s", got)
		}
		b.pass(time.Hour)
		b.state("web", Running)
	})
}

func TestScheduledConflict(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		spec := hourly()
		spec.Encoding = "shim"
		b.create(spec)
		other := web()
		other.Name = "other"
		_, warnings, err := b.control.Create(context.Background(), other, "test")
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "cannot run at the same time: h1: conflict with session web") {
			t.Errorf("warnings %q, %v", warnings, err)
		}
		b.pass(61 * time.Minute)
		s := b.state("web", Scheduled)
		if !strings.Contains(s.Reason, "conflict with session other") || b.eventCount("session-failed") != 1 {
			t.Errorf("reason %q", s.Reason)
		}
		if got := b.dayOf(2); got != "01:00/01:00 failed" {
			t.Errorf("runs %s", got)
		}
		if _, err := b.control.Stop("other"); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Hour)
		b.state("web", Running)
	})
}

func TestChangeOfSchedule(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		spec := web()
		spec.Duration = session.Duration(time.Minute)
		s, _, err := b.control.Change(context.Background(), spec, "test")
		if err != nil || !s.Ends.Equal(s.Started.Add(time.Minute)) {
			t.Errorf("end %v, %v", s.Ends, err)
		}
		late := spec
		late.Start = time.Now().Add(time.Hour)
		if _, _, err := b.control.Change(context.Background(), late, "test"); !errors.Is(err, ErrInvalid) {
			t.Errorf("start a running session: %v", err)
		}
		if _, _, err = b.control.Change(context.Background(), hourly(), "test"); err != nil {
			t.Fatal(err)
		}
		b.pass(11 * time.Minute)
		if s = b.state("web", Scheduled); s.NextStart.UTC().Hour() != 1 {
			t.Errorf("next start %v", s.NextStart)
		}
		if _, _, err = b.control.Change(context.Background(), web(), "test"); err != nil {
			t.Fatal(err)
		}
		b.state("web", Running)
	})
}

func TestHistoryIsBounded(t *testing.T) {
	bed(t, func(b *testbed) {
		b.control.mu.Lock()
		for i := range 3 * runsMax {
			b.control.remember(Run{Session: "old", Start: time.Unix(int64(i), 0), End: time.Unix(int64(i), 0), State: Done})
		}
		b.control.mu.Unlock()
		if runs := b.control.Runs(time.Unix(0, 0), time.Now(), "old"); len(runs) != runsMax || runs[0].Start.Unix() != 2*runsMax {
			t.Errorf("%d runs", len(runs))
		}
	})
}
