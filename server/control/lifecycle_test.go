package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/server/authority"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

func TestCreateRefuses(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for _, row := range []struct {
			name   string
			ctx    context.Context
			change func(*session.Spec)
			is     error
			says   string
		}{
			{"name taken", t.Context(), func(s *session.Spec) { s.Name = "web" }, ErrExists, "web"},
			{"broken", t.Context(), func(s *session.Spec) { s.Family = "x" }, ErrInvalid, "family"},
			{"unknown agent", t.Context(), func(s *session.Spec) { s.Sources = []string{"h9"} }, ErrInvalid, "sources[0]"},
			{"over already", t.Context(), func(s *session.Spec) { s.Start, s.Duration = time.Now().Add(-time.Hour), 1e9 }, ErrInvalid, "start: "},
			{"conflict", t.Context(), func(s *session.Spec) { s.Encoding = "shim" }, ErrConflict, "h1: conflict with session web"},
			{"cancelled request", ended, func(*session.Spec) {}, context.Canceled, ""},
		} {
			spec := web()
			spec.Name = "other"
			row.change(&spec)
			_, _, err := b.control.Create(row.ctx, spec, "test")
			if !errors.Is(err, row.is) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: got %v, want %v %q", row.name, err, row.is, row.says)
			}
		}
		if n := len(b.control.Sessions()); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

func TestErrorsOfLifecycle(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		for name, act := range map[string]func(string) error{
			"get":    func(n string) error { _, err := b.control.Session(n); return err },
			"pause":  func(n string) error { _, err := b.control.Pause(n); return err },
			"resume": func(n string) error { _, err := b.control.Resume(n); return err },
			"stop":   func(n string) error { _, err := b.control.Stop(n); return err },
			"delete": b.control.DeleteSession,
			"change": func(n string) error {
				spec := web()
				spec.Name = n
				_, _, err := b.control.Change(context.Background(), spec, "")
				return err
			},
		} {
			if err := act("none"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `"none"`) {
				t.Errorf("%s: %v", name, err)
			}
		}
		b.create(web())
		b.state("web", Running)
		if err := b.control.DeleteSession("web"); !errors.Is(err, ErrState) {
			t.Errorf("delete a running session: %v", err)
		}
		if _, err := b.control.Stop("web"); err != nil {
			t.Fatal(err)
		}
		b.state("web", Ended)
		if _, err := b.control.Pause("web"); !errors.Is(err, ErrState) {
			t.Errorf("pause an ended session: %v", err)
		}
		if _, _, err := b.control.Create(context.Background(), web(), ""); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "delete it first") {
			t.Errorf("create under the name of an ended session: %v", err)
		}
	})
}

func TestPlan(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		p := b.control.Plan(hourly())
		if len(p.Problems) > 0 || len(p.Pairs) != 1 || len(p.Steps) != 2 || len(p.Starts) != 10 || len(p.Costs) == 0 || p.Spec.Encoding != wire.DefaultEncodings().String() {
			t.Errorf("got %+v", p)
		}
		b.create(web())
		spec := web()
		spec.Name, spec.Encoding = "other", "shim"
		if p = b.control.Plan(spec); len(p.Problems) != 1 || len(p.Starts) != 1 {
			t.Errorf("got %+v", p)
		}
		if p = b.control.Plan(session.Spec{}); len(p.Problems) < 3 {
			t.Errorf("got %+v", p)
		}
		if n := len(b.control.Sessions()); n != 1 {
			t.Errorf("a plan created a session: %d", n)
		}
	})
}

// Two sessions with equal settings share one source; agents that join can make sessions
// conflict.
func TestSessionsOfOneSource(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.create(web())
		second := web()
		second.Name, second.Destinations = "more", []string{"h3"}
		b.create(second)
		b.state("more", Running)
		b.until("h1 marks for both", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return describe(b.hosts["h1"].applied) == " more>h3 web>h2"
		})
		third := session.Spec{Name: "third", Sources: []string{"site=b"}, Destinations: []string{"h3"}, Encoding: "shim", Trace: -1}
		b.create(third)
		b.state("third", Degraded)
		if err := b.control.SetLabels("h1", map[string]string{"site": "b"}); err != nil {
			t.Fatal(err)
		}
		b.until("the reason is reported", func() bool {
			s, _ := b.control.Session("third")
			return s.State == Degraded && strings.Contains(s.Reason, "h1: conflict with session")
		})
		b.state("web", Running)
		b.state("more", Running)
	})
}

// An agent takes sessions that mark in different ways if their packets do not overlap.
func TestSessionsWithOtherMarks(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.pass(2 * time.Second)
		ofPort := func(name, encoding string, port uint16) session.Spec {
			spec := web()
			spec.Name, spec.Encoding, spec.Filters = name, encoding, []fivetuple.Filter{{Dport: port}}
			return spec
		}
		b.create(ofPort("first", "native,udp", 80))
		b.create(ofPort("second", "shim", 81))
		b.state("first", Running)
		b.state("second", Running)
		_, _, err := b.control.Create(t.Context(), ofPort("third", "shim", 80), "")
		if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "different encoding for the same packets") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSaveFails(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		away := filepath.Join(b.dir, "..", "away")
		if err := os.Rename(b.dir, away); err != nil {
			t.Fatal(err)
		}
		spec := web()
		spec.Name = "other"
		if _, _, err := b.control.Create(context.Background(), spec, ""); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("create on a full disk: %v", err)
		}
		if _, err := b.control.Claim("h3", certificate("1"), authority.Grant{}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("claim on a full disk: %v", err)
		}
		if len(b.control.Sessions()) != 1 || len(b.control.Agents()) != 2 {
			t.Error("what could not be saved exists")
		}
		b.pass(10 * time.Second)
		b.state("web", Running)
		if err := b.control.Health(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("health: %v", err)
		}
		if !b.marks("h1", "web", "h2") {
			t.Error("the marking stopped")
		}
		if err := os.Rename(away, b.dir); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.control.Create(context.Background(), spec, ""); err != nil {
			t.Error(err)
		}
		if err := b.control.Health(); err != nil {
			t.Errorf("health: %v", err)
		}
	})
}

func TestSessionsAreNewestFirst(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		for _, name := range []string{"one", "two", "three"} {
			spec := web()
			spec.Name = name
			b.create(spec)
			b.pass(time.Second)
		}
		var names []string
		for _, s := range b.control.Sessions() {
			names = append(names, s.Spec.Name)
		}
		if got := strings.Join(names, " "); got != "three two one" {
			t.Errorf("got %s", got)
		}
	})
}
