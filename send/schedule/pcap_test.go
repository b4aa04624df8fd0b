package schedule

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

// written is a capture with a frame at each time.
func written(t testing.TB, at ...time.Duration) *bytes.Buffer {
	t.Helper()
	b := &bytes.Buffer{}
	err := WriteCapture(b, time.Unix(1e9, 0), func(yield func(time.Duration, []byte) bool) {
		for i, due := range at {
			if !yield(due, bytes.Repeat([]byte{byte(i)}, 60+i)) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCapture(t *testing.T) {
	at := []time.Duration{5, 1000, 900, 1000, 990, 2 * time.Second}
	for name, row := range map[string]struct {
		replay Replay
		want   []time.Duration
	}{
		"as captured":      {Replay{}, []time.Duration{0, 995, 995, 995, 995, 2*time.Second - 5}},
		"faster":           {Replay{Speed: 5}, []time.Duration{0, 199, 199, 199, 199, 400*time.Millisecond - 1}},
		"bounded and slow": {Replay{Speed: 0.5, MaxGap: time.Millisecond}, []time.Duration{0, 1990, 1990, 1990, 1990, time.Millisecond + 1990}},
		"bounded":          {Replay{MaxGap: time.Millisecond}, []time.Duration{0, 995, 995, 995, 995, time.Millisecond + 995}},
	} {
		s, err := ReadCapture(written(t, at...), row.replay)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range collect(t, s) {
			if e.Due != row.want[i] || e.Size != 60+i || len(e.Frame) != e.Size || int(e.Number) != i {
				t.Errorf("%s, packet %d: %+v, want %v", name, i, e, row.want[i])
			}
		}
	}
}

// TestCaptureDuration: a replay lasts as long as its capture, whatever the order of the packets,
// and rounding does not add up.
func TestCaptureDuration(t *testing.T) {
	var swapped, appended, fine []time.Duration
	for i := time.Duration(1); i < 1000; i += 2 { // neighbours from several queues
		swapped = append(swapped, (i+1)*time.Microsecond, i*time.Microsecond)
	}
	for range 20 { // captures appended without merging
		appended = append(appended, 0, time.Second)
	}
	for i := range time.Duration(1000) {
		fine = append(fine, i)
	}
	for name, row := range map[string]struct {
		at     []time.Duration
		replay Replay
		want   time.Duration
	}{
		"swapped":  {append([]time.Duration{0}, swapped...), Replay{}, time.Millisecond},
		"appended": {append(appended, 1100*time.Millisecond), Replay{}, 1100 * time.Millisecond},
		"rounding": {fine, Replay{Speed: 2}, 500},
		"for ever": {[]time.Duration{0, 100 * 365 * 24 * time.Hour}, Replay{Speed: 1e-9}, math.MaxInt64},
	} {
		s, err := ReadCapture(written(t, row.at...), row.replay)
		if err != nil {
			t.Fatal(err)
		}
		entries := collect(t, s)
		if got := entries[len(entries)-1].Due; got != row.want || len(entries) != len(row.at) {
			t.Errorf("%s: %d packets in %v, want %v", name, len(entries), got, row.want)
		}
	}
}

func TestCaptureErrors(t *testing.T) {
	whole := written(t, 0, 1).Bytes()
	for name, b := range map[string][]byte{"empty": nil, "short": {1, 2}, "text": []byte("0 size=100\n"), "header": whole[:20]} {
		if _, err := ReadCapture(bytes.NewReader(b), Replay{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s, err := ReadCapture(bytes.NewReader(whole[:len(whole)-1]), Replay{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range s {
	}
	if err == nil {
		t.Error("a capture that ends within a packet is read without an error")
	}
	raw := bytes.Clone(whole)
	raw[20] = 101
	s, _ = ReadCapture(bytes.NewReader(raw), Replay{})
	for _, err = range s {
	}
	if err == nil || !strings.Contains(err.Error(), "Ethernet is needed") {
		t.Errorf("raw IP is sent: %v", err)
	}
	if _, err := ReadCapture(bytes.NewReader(whole), Replay{Speed: -1}); err == nil {
		t.Error("a negative speed is accepted")
	}
}

func FuzzCapture(f *testing.F) {
	f.Add(written(f, 0, 7).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ReadCapture(bytes.NewReader(b), Replay{Speed: 3, MaxGap: time.Hour})
		if err != nil {
			return
		}
		var last time.Duration
		for e, err := range s {
			if err != nil {
				return
			}
			if e.Due < last {
				t.Fatalf("%+v behind %v", e, last)
			}
			last = e.Due
		}
	})
}
