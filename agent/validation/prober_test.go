package validation

import (
	"testing"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

// TestStates: what a sequence of results makes of a path.
func TestStates(t *testing.T) {
	for _, row := range []struct {
		name    string
		results []State
		want    State
	}{
		{"first test passes", []State{Passed}, Passed},
		{"first test fails", []State{Failed}, Failed},
		{"no answer at first", []State{Unanswered}, Unanswered},
		{"a failure counts at once", []State{Passed, Failed}, Failed},
		{"so does an altered mark", []State{Passed, Altered}, Altered},
		{"lost probes do not", []State{Passed, Unanswered, Unanswered}, Passed},
		{"unless they are many", []State{Passed, Unanswered, Unanswered, Unanswered}, Unanswered},
		{"answers in between", []State{Passed, Unanswered, Unanswered, Passed, Unanswered, Unanswered}, Passed},
		{"a path recovers", []State{Failed, Failed, Passed}, Passed},
		{"a failed path without answers", []State{Failed, Unanswered}, Unanswered},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := &path{Path: Path{State: Pending}}
			for _, r := range row.results {
				p.take(r, refreshLeast)
			}
			if p.State != row.want {
				t.Errorf("got %s, want %s", p.State, row.want)
			}
		})
	}
}

// TestRetries: a path that fails is tested less and less often, one that passes regularly.
func TestRetries(t *testing.T) {
	p := &path{}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		before := time.Now()
		p.take(Failed, refreshLeast)
		if got := p.due.Sub(before).Round(time.Second); got != want*time.Second {
			t.Errorf("failure %d: next test after %v, want %v s", i, got, int(want))
		}
	}
	before := time.Now()
	if p.take(Passed, refreshLeast); p.due.Sub(before).Round(time.Second) != refreshLeast {
		t.Errorf("next test of a path that passed after %v", p.due.Sub(before))
	}
}

// TestResult: what the answers of a test say.
func TestResult(t *testing.T) {
	for _, row := range []struct {
		name          string
		plain, unread int
		want          State
	}{
		{"none", 0, 0, Unanswered},
		{"one without a mark: the other may be lost", 1, 0, Unanswered},
		{"those without a mark", 2, 0, Failed},
		{"marked ones that no destination read", 3, 1, Altered},
		{"only marked ones that no destination read", 0, 3, Altered},
	} {
		t.Run(row.name, func(t *testing.T) {
			test := newTest(source.Path{Encoding: wire.UDPOption})
			test.plain, test.unread = row.plain, row.unread
			if got := test.result(); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestBudget: as many as a second has, and as time passes more.
func TestBudget(t *testing.T) {
	var b budget
	now := time.Now()
	count := func() (n int) {
		for b.take(now, 100) {
			n++
		}
		return n
	}
	if n := count(); n != 100 {
		t.Errorf("%d at first", n)
	}
	if now = now.Add(100 * time.Millisecond); count() != 10 {
		t.Error("not 10 after a tenth of a second")
	}
	if now = now.Add(time.Hour); count() != 100 {
		t.Error("not 100 after an hour")
	}
}
