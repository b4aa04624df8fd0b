package topology

import (
	"strings"
	"testing"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/session"
)

func TestPathChanges(t *testing.T) {
	tests := map[string]struct {
		traces []string
		want   []string // events: was, is
	}{
		"nothing changes":               {[]string{"r1 r2 b", "r1 r2 b", "r1 r2 b"}, nil},
		"change":                        {[]string{"r1 r2 b", "r1 r3 b", "r1 r3 b"}, []string{"was r1 > r2 > b, is r1 > r3 > b"}},
		"change is reported once":       {[]string{"r1 r2 b", "r1 r3 b", "r1 r3 b", "r1 r3 b"}, []string{"was r1 > r2 > b, is r1 > r3 > b"}},
		"there and back":                {[]string{"r1 b", "r2 b", "r2 b", "r1 b", "r1 b"}, []string{"was r1 > b, is r2 > b", "was r2 > b, is r1 > b"}},
		"odd trace":                     {[]string{"r1 r2 b", "r1 r3 b", "r1 r2 b", "r1 r3 b", "r1 r2 b"}, nil},
		"two odd traces that differ":    {[]string{"r1 r2 b", "r1 r3 b", "r1 r4 b", "r1 r2 b"}, nil},
		"longer":                        {[]string{"r1 b", "r1 r2 b", "r1 r2 b"}, []string{"was r1 > b, is r1 > r2 > b"}},
		"longer by a silent hop":        {[]string{"r1 b", "r1 * b", "r1 * b"}, []string{"was r1 > b, is r1 > ? > b"}},
		"hop falls silent":              {[]string{"r1 r2 b", "r1 * b", "r1 * b", "r1 r2 b"}, nil},
		"silent hop replies":            {[]string{"r1 * b", "r1 r2 b", "r1 r2 b"}, nil},
		"silence between hides nothing": {[]string{"r1 r2 b", "r1 * b", "r1 r3 b", "r1 r3 b"}, []string{"was r1 > r2 > b, is r1 > r3 > b"}},
		"silence confirms nothing":      {[]string{"r1 r2 b", "r1 r3 b", "r1 * b", "r1 r2 b", "r1 r3 b"}, nil},
		"silence does not deny":         {[]string{"r1 r2 b", "r1 r3 b", "r1 * b", "r1 r3 b"}, []string{"was r1 > r2 > b, is r1 > r3 > b"}},
		"alias of the end":              {[]string{"r1 b", "r1 b'", "r1 b'"}, nil},
		"end goes down":                 {[]string{"r1 r2 b", "r1 r2 * * !", "r1 * * !", "* * !", "r1 r2 b"}, nil},
		"down behind another router":    {[]string{"r1 r2 b", "r1 r3 * * !", "r1 r3 * * !"}, []string{"was r1 > r2 > b, is r1 > r3 > not reached"}},
		"down and longer":               {[]string{"r1 b", "r1 * r2 * !", "r1 * r2 * !"}, []string{"was r1 > b, is r1 > ? > r2 > not reached"}},
		"up for the first time":         {[]string{"r1 * * * !", "r1 r2 b", "r1 r2 b"}, nil},
		"nothing known, then a path":    {[]string{"* * !", "r1 b", "r2 b", "r2 b"}, []string{"was r1 > b, is r2 > b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			topology, events := newTopology(t)
			for i, words := range test.traces {
				add(t, topology, "a", "b", result(time.Duration(i)*time.Minute, "b", words))
			}
			var got []string
			for _, e := range *events {
				if e.Kind != "path-changed" || e.Level != event.Info || e.Agent != "a" || e.Peer != "b" || e.Session != "s" || !e.Time.Equal(start) {
					t.Errorf("got event %+v", e)
				}
				message, ok := strings.CutPrefix(e.Message, "path from a to b (10.0.2.1, udp) changed: ")
				if !ok {
					t.Errorf("got message %q", e.Message)
				}
				for _, router := range []string{"r1", "r2", "r3", "r4"} {
					message = strings.ReplaceAll(message, addresses[router], router)
				}
				got = append(got, message)
			}
			if strings.Join(got, "; ") != strings.Join(test.want, "; ") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestChangedIsTheFirstTraceOfTheRoute(t *testing.T) {
	topology, _ := newTopology(t)
	for i, words := range []string{"r1 b", "r1 b", "r2 b", "r2 b", "r2 b"} {
		add(t, topology, "a", "b", result(time.Duration(i)*time.Minute, "b", words))
	}
	if got := topology.Graph(Selection{}, nil).Paths[0].Changed; !got.Equal(start.Add(2 * time.Minute)) {
		t.Errorf("got %s, want %s", got, start.Add(2*time.Minute))
	}
}

// The rows of one trace may arrive in parts, and a part is not a shorter path.
func TestPartsOfATrace(t *testing.T) {
	topology, events := newTopology(t)
	for i, words := range []string{"r1 r2 b", "r1 r3 b", "r1 r3 b"} {
		whole := result(time.Duration(i)*time.Minute, "b", words)
		for _, cut := range [][2]int{{0, 2}, {2, 3}, {0, 3}} { // and all of it again
			part := whole
			part.Hops = whole.Hops[cut[0]:cut[1]]
			add(t, topology, "a", "b", part)
		}
	}
	if len(*events) != 1 {
		t.Errorf("got events %+v, want one", *events)
	}
	graph := topology.Graph(Selection{}, nil)
	checkWhole(t, graph)
	if got := len(graph.Paths[0].Hops); got != 3 {
		t.Errorf("got %d hops, want 3", got)
	}
}

func TestTimesOutOfOrder(t *testing.T) {
	topology, _ := newTopology(t)
	add(t, topology, "a", "b", result(time.Hour, "b", "r1 b"))
	add(t, topology, "a", "b", result(time.Hour-time.Minute, "b", "r2 b"))
	if got := topology.Graph(Selection{}, nil).Paths[0].Hops[0].Address; got != addresses["r1"] {
		t.Errorf("a delayed trace took the place of a later one: first hop %s", got)
	}
	add(t, topology, "a", "b", result(0, "b", "r3 b"))
	if got := topology.Graph(Selection{}, nil).Paths[0].Hops[0].Address; got != addresses["r3"] {
		t.Errorf("a trace after the clock was set back is ignored: first hop %s", got)
	}
}

// TestChangeIn: the route before the last change, and what the path has now.
func TestChangeIn(t *testing.T) {
	tests := map[string]struct {
		traces        []string
		now           string
		before, after int // minutes; -1: none
		state         string
	}{
		"none":                 {nil, "r1 b", -1, -1, ""},
		"no change":            {[]string{"r1 b", "r1 b"}, "r1 b", -1, 1, "current"},
		"change":               {[]string{"r1 b", "r1 b", "r2 b", "* b", "r2 b"}, "r2 b", 1, 4, "current"},
		"and back since":       {[]string{"r1 b", "r2 b"}, "r1 b", 0, 1, "reverted"},
		"and a third since":    {[]string{"r1 b", "r2 b"}, "r3 b", 0, 1, ""},
		"not traced any more":  {[]string{"r1 b", "r2 b"}, "", 0, 1, ""},
		"another address of b": {[]string{"r1 b", "r1 b'"}, "r1 b", -1, 1, "current"},
		"longer":               {[]string{"r1 b", "r1 r2 b"}, "r1 r2 b", 0, 1, "current"},
		"silence at the end":   {[]string{"r1 r2 b", "r1 * * * * !"}, "r1 r2 b", -1, 1, "current"},
		"invalid address":      {[]string{"x b", "r1 b"}, "r1 b", -1, 1, "current"},
	}
	addresses["x"] = "no address"
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			topology, _ := newTopology(t)
			if test.now != "" {
				add(t, topology, "a", "b", result(time.Hour, "b", test.now))
			}
			var traces Traces
			for minute, words := range test.traces {
				traced := result(0, "b", words)
				for _, h := range traced.Hops {
					if err := traces.Read(recordOf(t, []row{{int64(minute), "s", "b", addresses["a"], addresses["b"], "udp", uint32(h.TTL), h.Address, traced.Reached}})); err != nil {
						t.Fatal(err)
					}
				}
			}
			got := topology.ChangeIn("a", &traces)
			minute := func(r *session.TraceResult) int {
				if r == nil {
					return -1
				}
				return int(r.Time.Sub(start).Minutes())
			}
			state := map[bool]string{true: "current"}[got.Current] + map[bool]string{true: "reverted"}[got.Reverted]
			if minute(got.Before) != test.before || minute(got.After) != test.after || state != test.state {
				t.Errorf("got %d, %d, %q", minute(got.Before), minute(got.After), state)
			}
		})
	}
}
