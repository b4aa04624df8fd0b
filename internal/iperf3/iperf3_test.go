package iperf3

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sums are the sums of an interval in each direction.
func sums(i Interval) (text string) {
	for _, n := range []*Numbers{i.Sum, i.Reverse} {
		if n == nil {
			continue
		}
		text += "["
		for i, number := range []Number{n.Bytes, n.Rate, n.Retransmits, n.Lost} {
			if number.Known {
				text += fmt.Sprintf("%s=%g ", []string{"bytes", "rate", "retransmits", "lost"}[i], number.Value)
			}
		}
		if n.Sender != nil {
			text += fmt.Sprint(*n.Sender)
		}
		text += "]"
	}
	return text
}

// TestVersions: the output of each version, written after its sources, has what it has.
func TestVersions(t *testing.T) {
	for name, want := range map[string][]string{
		"3.1.3-udp":    {"start UDP infinity.example", "[bytes=1000 rate=8000 lost=0 ]", "[bytes=0 lost=0 ]"},
		"3.9-bidir":    {"start TCP ", "[bytes=1e+06 rate=8e+06 retransmits=7 true][bytes=250000 rate=2e+06 false]"},
		"3.12-bidir":   {"start UDP ", "[bytes=9000 rate=72000 true][bytes=8000 rate=64000 lost=1 false]"},
		"3.12-omit":    {"start TCP ", "[bytes=1 true]", "[bytes=3 true]", "[bytes=4 true]"},
		"3.17-stream":  {"event start", "event interval", "event interval", "event server_output_text", "event end"},
		"3.18-full":    {"event start", "event interval", "event end", "start TCP ", "[bytes=8 true]"},
		"3.20-tcp":     {"start TCP ", "[bytes=8 retransmits=0 true]"},
		"3.5-negative": {"start UDP ", "[bytes=1000 rate=8000 lost=-818638 ]"},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.Open(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var got []string
			for d := NewDecoder(file); ; {
				text, err := d.Next()
				if err == io.EOF {
					break
				}
				var o Object
				if err != nil || json.Unmarshal(text, &o) != nil {
					t.Fatalf("%v: %s", err, text)
				}
				if o.Event != "" {
					got = append(got, "event "+o.Event)
				}
				if o.Start != nil {
					got = append(got, "start "+o.Start.Test.Protocol+" "+o.Start.Connecting.Host)
				}
				for _, i := range o.Intervals {
					got = append(got, sums(i))
				}
			}
			if text := strings.Join(got, "\n"); text != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", text, strings.Join(want, "\n"))
			}
		})
	}
}

// TestNext: everything but nan and repeated keys stays as it is.
func TestNext(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": [-nan, inf, -Infinity, nan(0x8), 1.50, 18446744073709551615], "nan": "inf \" -nan", "a": true}`: `{"a":[null,null,null,null,1.50,18446744073709551615],"nan":"inf \" -nan","a_bidir_reverse":true}`,
		"{\"a\":\n-nan\n}{}":   `{"a":null}`,
		`[[], {}, null, "\n"]`: `[[],{},null,"\n"]`,
	} {
		if got, err := NewDecoder(strings.NewReader(text)).Next(); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"iperf 3.12", "{", `{"a":`, `{"a"`, `{"a":1`, strings.Repeat("[", 1e6), `{"a":1}}`} {
		d := NewDecoder(strings.NewReader(text))
		_, err := d.Next()
		if err == nil {
			_, err = d.Next()
		}
		if err == nil || err == io.EOF {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := NewDecoder(strings.NewReader(" \n")).Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func FuzzNext(f *testing.F) {
	f.Add(`{"a": [-nan, "inf", {"a": 1, "a": 2}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for d := NewDecoder(strings.NewReader(text)); ; {
			got, err := d.Next()
			if err != nil {
				return
			}
			if !json.Valid(got) {
				t.Fatalf("%s", got)
			}
			var o Object
			_ = json.Unmarshal(got, &o)
		}
	})
}
