package emulator

import (
	"encoding"
	"strings"
	"testing"
	"time"
)

func TestQuantities(t *testing.T) {
	tests := map[string]struct {
		text string
		into interface {
			encoding.TextUnmarshaler
			encoding.TextMarshaler
		}
		want string // "" for an error
	}{
		"duration":              {"5ms", new(Duration), "5ms"},
		"duration, fraction":    {"0.2ms", new(Duration), "200us"},
		"duration zero":         {"0", new(Duration), "0s"},
		"duration without unit": {"5", new(Duration), ""},
		"duration negative":     {"-1ms", new(Duration), ""},
		"duration too long":     {"2h", new(Duration), ""},
		"percent":               {"0.1%", new(Fraction), "0.1%"},
		"percent with space":    {"1 %", new(Fraction), ""},
		"percent all":           {"100%", new(Fraction), "100%"},
		"percent zero":          {"0", new(Fraction), "0%"},
		"percent without sign":  {"1", new(Fraction), ""},
		"percent too much":      {"100.1%", new(Fraction), ""},
		"percent negative":      {"-1%", new(Fraction), ""},
		"percent nan":           {"nan%", new(Fraction), ""},
		"percent exponent":      {"1e1%", new(Fraction), ""},
		"percent empty":         {"%", new(Fraction), ""},
		"rate":                  {"100mbit", new(Rate), "100000000bit"},
		"rate upper case":       {"1.5Gbit", new(Rate), "1500000000bit"},
		"rate zero":             {"0", new(Rate), "0bit"},
		"rate without unit":     {"100", new(Rate), ""},
		"rate bytes":            {"100mb", new(Rate), ""},
		"rate too fast":         {"1001gbit", new(Rate), ""},
		"rate below one bit":    {"0.1bit", new(Rate), ""},
		"queue packets":         {"1000", new(Queue), "1000"},
		"queue bytes":           {"64kB", new(Queue), "64000B"},
		"queue binary":          {"1MiB", new(Queue), "1048576B"},
		"queue zero":            {"0", new(Queue), ""},
		"queue half a packet":   {"1.5", new(Queue), ""},
		"queue unknown unit":    {"3 dozen", new(Queue), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.into.UnmarshalText([]byte(test.text))
			if test.want == "" {
				if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got error %v, want one line with %q", err, test.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := test.into.MarshalText(); string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Accepted values are in range and unchanged after being written and read again.
func FuzzQuantities(f *testing.F) {
	for _, seed := range []string{"5ms", "0.1%", ".00001%", "100mbit", "64kB", "0", "nan%", "1e999%", "", ".", "1.%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, d2 Duration
		if d.UnmarshalText([]byte(text)) == nil {
			again, _ := d.MarshalText()
			if d < 0 || d > Duration(time.Hour) || d2.UnmarshalText(again) != nil || d2 != d {
				t.Errorf("duration %q became %d and then %d", text, d, d2)
			}
		}
		var p, p2 Fraction
		if p.UnmarshalText([]byte(text)) == nil {
			again, _ := p.MarshalText()
			if p < 0 || p > 1 || p2.UnmarshalText(again) != nil || p2-p > 1e-12 || p-p2 > 1e-12 {
				t.Errorf("fraction %q became %v and then, by %s, %v", text, p, again, p2)
			}
		}
		var r, r2 Rate
		if r.UnmarshalText([]byte(text)) == nil {
			again, _ := r.MarshalText()
			if r < 0 || r > maxRate || r2.UnmarshalText(again) != nil || r2 != r {
				t.Errorf("rate %q became %d and then %d", text, r, r2)
			}
		}
		var q, q2 Queue
		if q.UnmarshalText([]byte(text)) == nil {
			again, _ := q.MarshalText()
			if (q.Packets < 1) == (q.Bytes < 1) || q2.UnmarshalText(again) != nil || q2 != q {
				t.Errorf("queue %q became %v and then %v", text, q, q2)
			}
		}
	})
}
