package schedule

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func collect(t testing.TB, s Schedule) (all []Entry) {
	t.Helper()
	for e, err := range s {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

const example = `# two flows and the default one
flow voice to=192.0.2.2:5004 dscp=46
flow bulk to=[2001:db8::2]:9 proto=tcp tcp-flags=A

0 voice size=214
+20ms voice size=214 train=7 # with a comment
30ms bulk size=1514
30ms size=100 payload=c0ffee together
1.5s frame=0102
`

func TestText(t *testing.T) {
	text, err := ReadText(strings.NewReader(example))
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, text.Packets())
	want := []Entry{
		{Size: 214, Flow: "voice"},
		{Due: 20 * time.Millisecond, Size: 214, Flow: "voice", Train: 7},
		{Due: 30 * time.Millisecond, Size: 1514, Flow: "bulk", Train: 1},
		{Due: 30 * time.Millisecond, Size: 100, Payload: []byte{0xc0, 0xff, 0xee}, Together: true, Number: 1},
		{Due: 1500 * time.Millisecond, Size: 2, Frame: []byte{1, 2}, Number: 2},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if !equal(got[i], want[i]) {
			t.Errorf("packet %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	voice, bulk := text.Flows["voice"], text.Flows["bulk"]
	if voice.TrafficClass != 46<<2 || voice.DestinationPort != 5004 || bulk.Protocol != "tcp" || !bulk.Destination.Is6() {
		t.Errorf("%+v, %+v", voice, bulk)
	}
}

func equal(a, b Entry) bool {
	same := bytes.Equal(a.Payload, b.Payload) && bytes.Equal(a.Frame, b.Frame)
	return same && a.Due == b.Due && a.Train == b.Train && a.Number == b.Number && a.Size == b.Size && a.Flow == b.Flow && a.Together == b.Together
}

func TestTextErrors(t *testing.T) {
	for name, row := range map[string]struct{ text, says string }{
		"empty":            {"# nothing\n", "no packets"},
		"time":             {"soon size=100", "line 1"},
		"backwards":        {"2ms\n1ms", "line 2"},
		"option":           {"0 length=7", "size, train, payload, frame or together"},
		"unknown flow":     {"0 voice size=7", "neither a flow nor an option"},
		"flow twice":       {"flow a to=::1\nflow a to=::1\n0 a", "line 2"},
		"flow, no name":    {"flow to=::1", "without a name"},
		"flow, no address": {"flow a dscp=1", "no destination"},
		"flow, field":      {"flow a to=::1 colour=red", "no field"},
		"flow, value":      {"flow a to=::1 dscp=64", "must be a number from 0 to 63"},
		"flow too late":    {"0\nflow a to=::1", "before the first packet"},
		"payload":          {"0 payload=xy", "line 1"},
		"long line":        {"0 payload=" + strings.Repeat("00", lineLimit), "line 1"},
	} {
		text, err := ReadText(strings.NewReader(row.text))
		if err == nil {
			for _, err = range text.Packets() {
				if err != nil {
					break
				}
			}
		}
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(example)
	f.Fuzz(func(t *testing.T, text string) {
		read, err := ReadText(strings.NewReader(text))
		if err != nil {
			return
		}
		var last time.Duration
		var all []Entry
		for e, err := range read.Packets() {
			if err != nil {
				return
			}
			if e.Due < last {
				t.Fatalf("%+v behind %v", e, last)
			}
			last, e.Flow = e.Due, ""
			all = append(all, e)
		}
		checkRoundTrip(t, all)
	})
}

func checkRoundTrip(t *testing.T, all []Entry) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteText(&b, nil, of(all)); err != nil {
		t.Fatal(err)
	}
	written := b.String()
	again, err := ReadText(&b)
	if err != nil {
		t.Fatalf("%v of\n%s", err, written)
	}
	for i, e := range collect(t, again.Packets()) {
		all[i].Number = e.Number // counted by train
		if !equal(e, all[i]) {
			t.Fatalf("read %+v, want %+v", e, all[i])
		}
	}
}

func of(all []Entry) Schedule {
	return func(yield func(Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}
