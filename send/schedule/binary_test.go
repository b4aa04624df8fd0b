package schedule

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pillion.dev/send/frame"
)

// binaryOf is the example of text in binary.
func binaryOf(t testing.TB, text string) (*bytes.Buffer, []Entry) {
	t.Helper()
	read, err := ReadText(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := collect(t, read.Packets())
	b := &bytes.Buffer{}
	if err := WriteBinary(b, read.Flows, of(all)); err != nil {
		t.Fatal(err)
	}
	return b, all
}

// TestBinary: what is written is read, with all fields.
func TestBinary(t *testing.T) {
	b, want := binaryOf(t, example)
	if n := b.Len(); n >= len(example) {
		t.Errorf("%d bytes", n)
	}
	read, err := ReadBinary(b)
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, read.Packets())
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if !equal(got[i], want[i]) {
			t.Errorf("packet %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if voice := read.Flows["voice"]; voice.TrafficClass != 46<<2 || voice.DestinationPort != 5004 || len(read.Flows) != 2 {
		t.Errorf("%+v", read.Flows)
	}
}

// TestBinaryDefaultFlow: the flow without a name is written as one with the name of text.
func TestBinaryDefaultFlow(t *testing.T) {
	h := &frame.Header{}
	if err := h.Set("to", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteBinary(&b, map[string]*frame.Header{"": h}, of([]Entry{{Due: time.Second, Size: 100}})); err != nil {
		t.Fatal(err)
	}
	read, err := ReadBinary(&b)
	if err != nil {
		t.Fatal(err)
	}
	if got := collect(t, read.Packets()); len(got) != 1 || got[0].Flow != defaultFlow || got[0].Due != time.Second {
		t.Errorf("%+v", got)
	}
}

func TestBinaryErrors(t *testing.T) {
	whole, all := binaryOf(t, example)
	for length := range whole.Len() {
		read, err := ReadBinary(bytes.NewReader(whole.Bytes()[:length]))
		packets := 0
		if err == nil {
			for _, err = range read.Packets() {
				if err != nil {
					break
				}
				packets++
			}
		}
		if err == nil && packets == len(all) || err != nil && !errors.Is(err, ErrFile) {
			t.Errorf("%d bytes of %d: %d packets, %v", length, whole.Len(), packets, err)
		}
	}
	for name, row := range map[string]struct{ text, says string }{
		"version":  {"PLSB\x02\x00", "version 2; this program reads version 1"},
		"flows":    {"PLSB\x01\xff\xff\x03", "header: number 65535 is above 4096"},
		"flow":     {"PLSB\x01\x01\x04a x=", "no field"},
		"bits":     {"PLSB\x01\x00\x10", "packet 1: number 16 is above 15"},
		"no flow":  {"PLSB\x01\x00\x02\x00\x00\x00\x64", "packet 1: flow 0 of 0"},
		"contents": {"PLSB\x01\x00\x04\x00\x00\x64\xff\x7f", "packet 1: number 16383 is above 2048"},
		"due":      {"PLSB\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "packet 1: number"},
	} {
		read, err := ReadBinary(strings.NewReader(row.text))
		if err == nil {
			for _, err = range read.Packets() {
				if err != nil {
					break
				}
			}
		}
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzBinary(f *testing.F) {
	b, _ := binaryOf(f, example)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		read, err := ReadBinary(bytes.NewReader(b))
		if err != nil {
			return
		}
		var all []Entry
		for e, err := range read.Packets() {
			if err != nil {
				return
			}
			if n := len(all); n > 0 && e.Due < all[n-1].Due {
				t.Fatalf("%+v behind %+v", e, all[n-1])
			}
			if e.Frame != nil {
				e.Flow = "" // which a frame does not need
			}
			all = append(all, e)
		}
		var written bytes.Buffer
		if err := WriteBinary(&written, read.Flows, of(all)); err != nil {
			t.Fatal(err)
		}
		again, err := ReadBinary(&written)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range collect(t, again.Packets()) {
			if !equal(e, all[i]) || e.Number != all[i].Number {
				t.Fatalf("read %+v, want %+v", e, all[i])
			}
		}
	})
}
