package live

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

var ab = archive.Selection{Source: "a", Destination: "b"}

// follow adds rows that arrive at a time, and returns what has changed as text.
func follow(t testing.TB, w *Watch, seconds float64, rows ...row) string {
	t.Helper()
	if len(rows) > 0 {
		if err := w.Add(batchOf(t, "b", rows...), at(seconds)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := w.Fresh()
	var list []string
	for _, window := range w.Changed() {
		list = append(list, fmt.Sprintf("%v:%d", window.Start.Sub(epoch).Seconds(), window.Packets))
	}
	if fresh {
		list = append(list, "new")
	}
	return strings.Join(list, " ")
}

func every(interval time.Duration, end float64, session string, packets int) row {
	r := measured(end, session, "a", packets, 1024)
	r["interval_ns"] = interval
	return r
}

func TestWatch(t *testing.T) {
	type step struct {
		name string
		at   float64
		rows []row
		want string
	}
	second := func(end float64, session string, packets int) row { return every(time.Second, end, session, packets) }
	tests := []struct {
		name  string
		asked time.Duration
		steps []step
	}{
		{"rows of seconds", 0, []step{
			{"nothing", 0, nil, ""},
			{"first", 1.1, []row{second(1.001, "s", 1), second(1.002, "s", 2)}, "0:3 new"},
			{"next", 2.1, []row{second(2.02, "s", 4)}, "1:4 new"},
			{"late one", 2.2, []row{second(1.003, "s", 8)}, "0:11"},
			{"a little long", 3.2, []row{every(1080*time.Millisecond, 3.1, "s", 1)}, "2:1 new"},
			{"other pairs", 3.3, []row{measured(3, "s", "c", 5, 1024)}, ""},
		}},
		{"rows over a border", 2 * time.Second, []step{
			{"middle at the border", 2.6, []row{second(2.5, "s", 1)}, "2:1 new"},
			{"middle before it", 2.7, []row{second(2.499, "s", 1)}, "0:1 new"},
		}},
		{"short rows", 0, []step{{"ten", 1.1, []row{every(100*time.Millisecond, 0.1, "s", 1), every(100*time.Millisecond, 1, "s", 2), every(100*time.Millisecond, 1.1, "s", 4)}, "0:3 1:4 new"}}},
		{"long rows", 0, []step{
			{"the first is short", 3.1, []row{every(3*time.Second, 3, "s", 1)}, "0:1 new"},
			{"whole", 13.1, []row{every(10*time.Second, 13, "s", 7)}, "0:7 new"},
			{"another", 23.1, []row{every(10*time.Second, 23, "s", 8)}, "10:8 new"},
			{"a single one is longer", 43.1, []row{every(20*time.Second, 43, "s", 9)}, "30:9 new"},
		}},
		{"two sessions", 0, []step{
			{"one", 1.1, []row{second(1, "x", 10)}, "0:10 new"},
			{"the other sees as much", 1.2, []row{second(1, "a", 11)}, ""},
			{"it sees more", 2.2, []row{second(2, "x", 10), second(2, "a", 40)}, "0:11 1:40 new"},
			{"it ends", 3.2, []row{second(3, "x", 10)}, ""},
			{"for long", 20, []row{second(20, "x", 10)}, "0:10 1:10 2:10 19:10 new"},
		}},
		{"dropped windows stay dropped", 0, []step{
			{"first", 1.1, []row{second(1, "s", 1)}, "0:1 new"},
			{"much later", 40, []row{second(39, "s", 1)}, "38:1 new"},
			{"too late", 40.1, []row{second(1, "s", 1)}, ""},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := NewWatch(ab, test.asked)
			for _, s := range test.steps {
				if got := follow(t, w, s.at, s.rows...); got != s.want {
					t.Errorf("%s: got %q, want %q", s.name, got, s.want)
				}
			}
		})
	}
}

// TestWatchSelection: each field of a selection is compared.
func TestWatchSelection(t *testing.T) {
	full := measured(1, "s", "a", 5, 1024)
	full["src"], full["dst"], full["proto"], full["sport"], full["dport"] = "192.0.2.1", "192.0.2.2", "udp", 7, 8
	for name, change := range map[string]func(*archive.Selection){
		"": func(*archive.Selection) {}, "source": func(s *archive.Selection) { s.Source = "x" }, "destination": func(s *archive.Selection) { s.Destination = "x" },
		"session": func(s *archive.Selection) { s.Session = "x" }, "src": func(s *archive.Selection) { s.Src = "x" }, "dst": func(s *archive.Selection) { s.Dst = "x" },
		"proto": func(s *archive.Selection) { s.Proto = "x" }, "sport": func(s *archive.Selection) { s.Sport = 1 }, "dport": func(s *archive.Selection) { s.Dport = 1 },
	} {
		selection := archive.Selection{Source: "a", Destination: "b", Session: "s",
			Flow: flows.Flow{Src: "192.0.2.1", Dst: "192.0.2.2", Proto: "udp", Sport: 7, Dport: 8}}
		change(&selection)
		if got := follow(t, NewWatch(selection, 0), 1.1, full); (got == "0:5 new") != (name == "") {
			t.Errorf("other %s: got %q", name, got)
		}
	}
}

// TestWatchOfManyRows: the oracle is a histogram over all values, as package measure
// makes it.
func TestWatchOfManyRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var whole histogram.Histogram
	var rows []row
	least, most, total := int64(math.MaxInt64), int64(0), 0.0
	for range 20 {
		var one histogram.Histogram
		low, high, sum := int64(math.MaxInt64), int64(0), int64(0)
		for range 100 {
			v := int64(1e6 * math.Exp(random.NormFloat64()))
			bound := v >> 15 << 15
			one.AddBucket(bound, 1)
			whole.AddBucket(bound, 1)
			low, high, sum = min(low, v), max(high, v), sum+v
		}
		least, most, total = min(least, low), max(most, high), total+float64(sum)
		r := measured(1, "s", "a", 100, one.Bounds...)
		r["delay_counts"], r["delay_min_ns"], r["delay_max_ns"], r["delay_mean_ns"] = one.Counts, low, high, sum/100
		rows = append(rows, r)
	}
	w := NewWatch(ab, 0)
	if err := w.Add(batchOf(t, "b", rows...), at(1.1)); err != nil {
		t.Fatal(err)
	}
	d := w.Changed()[0].Delay
	for _, q := range []float64{0.5, 0.9, 0.99} {
		if got, want := d.Quantile(q), whole.Quantile(q, float64(least), float64(most)); got != want {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
	if _, mean, _ := d.Extremes(); d.Count != 2000 || d.Min != least || d.Max != most || math.Abs(mean-total/2000) > 1 || fmt.Sprint(d.Histogram) != fmt.Sprint(whole) {
		t.Errorf("got %+v", d)
	}
}

// TestLack: windows that began before the watch get the rest from the archive, once.
func TestLack(t *testing.T) {
	w := NewWatch(ab, 10*time.Second)
	if _, lacks := w.Lack(); lacks {
		t.Error("a watch without windows lacks something")
	}
	if err := w.Add(batchOf(t, "b", measured(15, "s", "a", 4, 1<<20), measured(16, "s", "a", 4, 1<<20)), at(16.1)); err != nil {
		t.Fatal(err)
	}
	question, lacks := w.Lack()
	want := archive.Windows{Selection: ab, Step: 10 * time.Second, Before: at(15).Local(), From: at(10).Local(), To: at(20).Local()}
	want.Session = "s"
	if !lacks || question != want {
		t.Errorf("got %+v, want %+v", question, want)
	}
	stored := archive.Window{Start: at(10), Sum: flows.Sum{Counts: flows.Counts{Packets: 92}, ClockError: flows.BoundOf(99)}}
	stored.Delay = flows.NewDistribution(92, 500, 1000, 4000, histogram.Histogram{Bounds: []int64{1024}, Counts: []uint64{92}})
	other := stored
	other.Start = at(0)
	w.Fill(archive.WindowsAnswer{Step: 10 * time.Second, Windows: []archive.Window{other, stored}})
	got := w.Changed()
	if len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	d := got[0].Delay
	if least, mean, _ := d.Extremes(); got[0].Packets != 100 || d.Count != 100 || mean != (92*1000+8*2000)/100.0 ||
		least != 500 || d.Quantile(0.5) > 1056 || d.Quantile(0.99) < 1<<20 || got[0].ClockError != flows.BoundOf(99) {
		t.Errorf("got %+v", got)
	}
	if _, lacks := w.Lack(); lacks {
		t.Error("the archive is queried again")
	}
}
