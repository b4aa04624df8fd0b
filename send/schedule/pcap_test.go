package schedule

import (
	"bytes"
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
	at := []time.Duration{5, 1000, 900, 2 * time.Second}
	for name, row := range map[string]struct {
		replay Replay
		want   []time.Duration
	}{
		"as captured": {Replay{}, []time.Duration{0, 995, 995, 2*time.Second + 95}},
		"faster":      {Replay{Speed: 5}, []time.Duration{0, 199, 199, 400*time.Millisecond + 19}},
		"bounded":     {Replay{MaxGap: time.Millisecond}, []time.Duration{0, 995, 995, time.Millisecond + 995}},
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
