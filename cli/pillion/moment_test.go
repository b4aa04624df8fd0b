package pillion

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	now := time.Date(2026, 3, 1, 15, 30, 0, 0, zone)
	for _, test := range []struct{ name, text, want string }{
		{"now", "now", "2026-03-01T15:30:00+02:00"},
		{"RFC 3339", "2026-01-31T14:00:00Z", "2026-01-31T14:00:00Z"},
		{"fraction", "2026-01-31T14:00:00.5Z", "2026-01-31T14:00:00.5Z"},
		{"ago", "-1h30m", "2026-03-01T14:00:00+02:00"},
		{"days ago", "-7d", "2026-02-22T15:30:00+02:00"},
		{"ahead", "+2h", "2026-03-01T17:30:00+02:00"},
		{"today", "today", "2026-03-01T00:00:00+02:00"},
		{"today at", "today 14:00", "2026-03-01T14:00:00+02:00"},
		{"yesterday at", "yesterday 23:59:30", "2026-02-28T23:59:30+02:00"},
		{"tomorrow", "tomorrow 6:00", "2026-03-02T06:00:00+02:00"},
		{"time of day", "09:15", "2026-03-01T09:15:00+02:00"},
		{"date", "2026-02-01", "2026-02-01T00:00:00+02:00"},
		{"date and time", "2026-02-01 10:00", "2026-02-01T10:00:00+02:00"},
		{"empty", "", ""},
		{"word", "noonish", ""},
		{"hour 25", "today 25:00", ""},
		{"sign alone", "-", ""},
		{"two signs", "--1h", ""},
		{"before archives", "1066-10-14", ""},
		{"span without sign", "1h", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseTime(test.text, now)
			if test.want == "" {
				if err == nil {
					t.Fatalf("got %v", got)
				}
				return
			}
			if err != nil || got.Format(time.RFC3339Nano) != test.want {
				t.Fatalf("got %v, %v, want %s", got, err, test.want)
			}
		})
	}
}

func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"now", "-1h", "+7d", "today 14:00", "2026-01-31T14:00:00Z", "09:15", "-1w2d"} {
		f.Add(seed)
	}
	now := time.Date(2026, 3, 1, 15, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTime(text, now)
		if err != nil {
			return
		}
		if strings.HasPrefix(strings.TrimSpace(text), "-") && got.After(now) {
			t.Fatalf("%q is %v, after now", text, got)
		}
	})
}

func FuzzParsePairs(f *testing.F) {
	f.Add("a=b")
	f.Add("a=b=c")
	f.Add("=")
	f.Fuzz(func(t *testing.T, word string) {
		pairs, err := parsePairs([]string{word})
		if err != nil {
			return
		}
		for key, value := range pairs {
			if key == "" || key+"="+value != word {
				t.Fatalf("%q became %q=%q", word, key, value)
			}
		}
	})
}

func TestParsePairs(t *testing.T) {
	for _, test := range []struct {
		name  string
		words []string
		want  string
		ok    bool
	}{
		{"none", nil, "", true},
		{"two", []string{"b=2", "a=1"}, "a=1 b=2", true},
		{"empty value", []string{"a="}, "a=", true},
		{"equals in value", []string{"a=b=c"}, "a=b=c", true},
		{"no key", []string{"=x"}, "", false},
		{"no equals", []string{"a"}, "", false},
		{"twice", []string{"a=1", "a=2"}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parsePairs(test.words)
			if test.ok != (err == nil) || pairsText(got) != test.want {
				t.Fatalf("got %v, %v", got, err)
			}
		})
	}
}

func TestTexts(t *testing.T) {
	for _, test := range []struct{ name, got, want string }{
		{"clean", clean("a\x1b[2J\u202eb\nc"), "a\uFFFD[2J\uFFFDb c"},
		{"fit", fit("abcdef", 4), "abc…"},
		{"sparkline", sparkline([]float64{9, 0, 1, math.NaN(), 7}, 4), "▁▂ █"},
		{"flat sparkline", sparkline([]float64{5, 5}, 9), "▁▁"},
		{"no sparkline", sparkline([]float64{5, 5}, 0), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.got != test.want {
				t.Fatalf("got %q, want %q", test.got, test.want)
			}
		})
	}
}
