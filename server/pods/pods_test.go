package pods

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

// clock is the clock of names.
type clock struct{ now time.Time }

func newNames() (*Names, *clock) {
	c := &clock{time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)}
	return New(func() time.Time { return c.now }), c
}

// row is one of the stream pods: NAMESPACE/NAME that has the address, or no longer has it.
func row(address, pod string, held bool) measuretest.Fields {
	namespace, name, _ := strings.Cut(pod, "/")
	return measuretest.Fields{"address": address, "namespace": namespace, "pod": name, "node": "w1", "held": held}
}

func add(t testing.TB, n *Names, agent string, rows ...measuretest.Fields) error {
	t.Helper()
	record := measuretest.Record(t, &measure.Pods, rows...)
	defer record.Release()
	return n.Add(archive.Batch{Agent: agent, Record: record})
}

func everybody(string) bool { return true }

// find returns NAMESPACE/NAME, with a question mark if the pod no longer holds the address.
func find(n *Names, address, agent string) string {
	p, known := n.Find(address, agent, everybody)
	switch {
	case !known:
		return "-"
	case !p.Held:
		return p.Namespace + "/" + p.Name + "?"
	}
	return p.Namespace + "/" + p.Name
}

func TestFind(t *testing.T) {
	const address = "10.1.0.1"
	type report struct {
		agent string
		after time.Duration // since the one before
		row   measuretest.Fields
	}
	for _, test := range []struct {
		name    string
		reports []report
		later   time.Duration
		a, any  string // according to agent a, and to any agent
	}{
		{"nothing", nil, 0, "-", "-"},
		{"one", []report{{"a", 0, row(address, "n/p", true)}}, 0, "n/p", "n/p"},
		{"mapped", []report{{"a", 0, row("::ffff:10.1.0.1", "n/p", true)}}, 0, "n/p", "n/p"},
		{"of another agent", []report{{"b", 0, row(address, "n/p", true)}}, 0, "-", "n/p"},
		{"left", []report{{"a", 0, row(address, "n/p", true)}, {"a", 0, row(address, "n/p", false)}}, 0, "n/p?", "n/p?"},
		{"left before it was known", []report{{"a", 0, row(address, "n/p", false)}}, 0, "-", "-"},
		{"replaced", []report{{"a", 0, row(address, "n/p", true)}, {"a", 0, row(address, "n/q", true)}, {"a", 0, row(address, "n/p", false)}}, 0, "n/q", "n/q"},
		{"moved to another node", []report{{"a", 0, row(address, "n/p", true)}, {"a", 0, row(address, "n/p", false)}, {"b", 0, row(address, "n/q", true)}}, 0, "n/p?", "n/q"},
		{"moved, reports in the other order", []report{{"b", 0, row(address, "n/q", true)}, {"a", 0, row(address, "n/p", true)}, {"a", 0, row(address, "n/p", false)}}, 0, "n/p?", "n/q"},
		{"contradiction", []report{{"a", 0, row(address, "n/p", true)}, {"b", 0, row(address, "n/q", true)}}, 0, "n/p", "-"},
		{"both have left", []report{
			{"a", 0, row(address, "n/p", true)}, {"a", 0, row(address, "n/p", false)}, {"b", 0, row(address, "n/q", true)}, {"b", 0, row(address, "n/q", false)},
		}, 0, "n/p?", "-"},
		{"agent is silent", []report{{"a", 0, row(address, "n/p", true)}}, fresh, "n/p?", "n/p?"},
		{"agent reports again", []report{{"a", 0, row(address, "n/p", true)}, {"a", fresh, row(address, "n/p", true)}}, fresh - 1, "n/p", "n/p"},
		{"agent was replaced", []report{{"a", 0, row(address, "n/p", true)}, {"b", fresh, row(address, "n/q", true)}}, 0, "n/p?", "n/q"},
		{"a day later", []report{{"a", 0, row(address, "n/p", true)}}, keep, "-", "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, c := newNames()
			for _, r := range test.reports {
				c.now = c.now.Add(r.after)
				if err := add(t, n, r.agent, r.row); err != nil {
					t.Fatal(err)
				}
			}
			c.now = c.now.Add(test.later)
			if a, any := find(n, address, "a"), find(n, address, ""); a != test.a || any != test.any {
				t.Errorf("according to a %s, want %s; to any agent %s, want %s", a, test.a, any, test.any)
			}
		})
	}
}

// TestFindBelieves: what an agent reports that is not believed neither is an answer nor contradicts one.
func TestFindBelieves(t *testing.T) {
	n, _ := newNames()
	for agent, pod := range map[string]string{"a": "n/p", "b": "n/q"} {
		if err := add(t, n, agent, row("fd00::1", pod, true)); err != nil {
			t.Fatal(err)
		}
	}
	onlyA := func(agent string) bool { return agent == "a" }
	if p, known := n.Find("fd00::1", "", onlyA); !known || p.Name != "p" || p.Agent != "a" {
		t.Errorf("%+v, %v", p, known)
	}
	if p, known := n.Find("fd00::1", "b", onlyA); known {
		t.Errorf("of b: %+v", p)
	}
	if p, known := n.Find("a", "", everybody); known { // as in flows by pair of agents
		t.Errorf("no address: %+v", p)
	}
}

// TestSearch: addresses are found by the pod that Find returns, not by others.
func TestSearch(t *testing.T) {
	n, c := newNames()
	for agent, rows := range map[string][]measuretest.Fields{
		"a": {row("10.1.0.9", "shop/cart-0", true), row("10.1.0.2", "shop/Cart-1", true), row("10.1.0.3", "carts/db", true), row("10.1.0.4", "shop/db", true)},
		"b": {row("10.1.0.4", "shop/cart-2", true), row("10.1.0.5", "shop/cart-3", true)},
	} {
		if err := add(t, n, agent, rows...); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ text, agent, want string }{
		{"cart", "a", "10.1.0.2 10.1.0.3 10.1.0.9"},
		{"CART", "", "10.1.0.2 10.1.0.3 10.1.0.5 10.1.0.9"}, // agents contradict each other about 10.1.0.4
		{"shop/cart-0", "a", "10.1.0.9"},
		{"cart", "b", "10.1.0.4 10.1.0.5"},
		{"10.1", "", ""},
		{"cart", "x", ""},
	} {
		if got := strings.Join(n.Search(test.text, test.agent, everybody), " "); got != test.want {
			t.Errorf("%q according to %q: %s, want %s", test.text, test.agent, got, test.want)
		}
	}
	if got := n.Search("cart", "", func(agent string) bool { return agent == "b" }); strings.Join(got, " ") != "10.1.0.4 10.1.0.5" {
		t.Errorf("if only b is believed: %v", got)
	}
	c.now = c.now.Add(keep)
	if got := n.Search("cart", "", everybody); len(got) > 0 {
		t.Errorf("a day later: %v", got)
	}
}

// TestAddRefuses: invalid rows are skipped, those beside them are kept.
func TestAddRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		row  measuretest.Fields
		want string
	}{
		{"no address", row("cart-0", "n/p", true), `invalid address "cart-0"`},
		{"zone", row("fe80::1%eth0", "n/p", true), "invalid address"},
		{"no namespace", row("10.0.0.2", "/p", true), `10.0.0.2: invalid name ""`},
		{"no name", row("10.0.0.2", "n/", true), "invalid name"},
		{"long name", row("10.0.0.2", "n/"+strings.Repeat("p", 254), true), "invalid name"},
		{"no UTF-8", row("10.0.0.2", "n/\xff", true), `invalid name "\xff"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, _ := newNames()
			err := add(t, n, "a", test.row, row("10.0.0.1", "n/p", true))
			if !errors.Is(err, ErrName) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `"a"`) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if find(n, "10.0.0.1", "a") != "n/p" || n.total != 1 {
				t.Errorf("%d names: %v", n.total, n.by)
			}
		})
	}
	n, _ := newNames()
	record := measuretest.Record(t, &measure.Clock, measuretest.Fields{})
	defer record.Release()
	if err := n.Add(archive.Batch{Agent: "a", Record: record}); !errors.Is(err, measure.ErrColumns) {
		t.Errorf("other columns: %v", err)
	}
}

// TestLimits: addresses of one agent, and of all, are bounded; those that are known can still change.
func TestLimits(t *testing.T) {
	n, c := newNames()
	full := func(agent int) error {
		var rows []measuretest.Fields
		for i := range agentMax + 1 {
			rows = append(rows, row(fmt.Sprintf("fd00::%x:%x", agent, i), "n/p", true))
		}
		return add(t, n, fmt.Sprint(agent), rows...)
	}
	for agent := range totalMax / agentMax {
		if err := full(agent); !errors.Is(err, ErrName) || !strings.Contains(err.Error(), "1000 addresses of an agent") {
			t.Fatalf("agent %d: %v", agent, err)
		}
	}
	if err := add(t, n, "last", row("10.0.0.1", "n/p", true)); !errors.Is(err, ErrName) || !strings.Contains(err.Error(), "limit of 200000 addresses") {
		t.Errorf("all: %v", err)
	}
	if found := n.Search("n/p", "", everybody); len(found) != searchMax {
		t.Errorf("a search finds %d addresses", len(found))
	}
	if err := add(t, n, "0", row("fd00::0:1", "n/q", true)); err != nil || find(n, "fd00::0:1", "0") != "n/q" {
		t.Errorf("known address: %v, %s", err, find(n, "fd00::0:1", "0"))
	}
	c.now = c.now.Add(keep - 1)
	if n.Expire(); n.total != totalMax {
		t.Errorf("%d addresses before they are old", n.total)
	}
	if err := add(t, n, "0", row("fd00::0:1", "n/q", true)); err != nil {
		t.Error(err)
	}
	c.now = c.now.Add(1)
	if n.Expire(); n.total != 1 || len(n.by) != 1 || len(n.count) != 1 || n.count["0"] != 1 {
		t.Errorf("%d addresses are left, of %v", n.total, n.count)
	}
}

// FuzzAdd: whatever agents report, what is kept is valid, bounded and counted, and all of it expires.
func FuzzAdd(f *testing.F) {
	f.Add("a", "10.0.0.1", "n", "p", "w1", true, "b", "10.0.0.1", "n", "q", false)
	f.Add("a", "::ffff:10.0.0.1", "n", "p", "w1", true, "a", "10.0.0.1", "n", "p", false)
	f.Add("a", "fe80::1%x", "", "\xff", "", false, "", "x", "", "", true)
	f.Fuzz(func(t *testing.T, agent, address, namespace, pod, node string, held bool, agent2, address2, namespace2, pod2 string, held2 bool) {
		n, c := newNames()
		_ = add(t, n, agent, measuretest.Fields{"address": address, "namespace": namespace, "pod": pod, "node": node, "held": held})
		_ = add(t, n, agent2, measuretest.Fields{"address": address2, "namespace": namespace2, "pod": pod2, "node": node, "held": held2})
		kept := 0
		for at, all := range n.by {
			kept += len(all)
			if !at.IsValid() || at.Zone() != "" || at.Is4In6() || len(all) == 0 {
				t.Errorf("address %v with %v", at, all)
			}
			for _, p := range all {
				if p.Namespace == "" || p.Name == "" || p.Node == "" || max(len(p.Namespace), len(p.Name), len(p.Node)) > textMax {
					t.Errorf("%v has %+v", at, p)
				}
				if found, known := n.Find(at.String(), p.Agent, everybody); !known || found != p {
					t.Errorf("found %+v, %v; kept is %+v", found, known, p)
				}
			}
		}
		if kept != n.total || kept > 2 {
			t.Errorf("%d names are kept, %d counted", kept, n.total)
		}
		c.now = c.now.Add(keep)
		if n.Expire(); n.total != 0 || len(n.by) != 0 || len(n.count) != 0 {
			t.Errorf("%d names are left: %v, %v", n.total, n.by, n.count)
		}
	})
}
