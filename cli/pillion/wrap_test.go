package pillion

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrappedTable(t *testing.T) {
	findings := newTable("agent", "check", "found=RESULT", "advice")
	findings.add(text("north1"), text("offloads"), text("eth0 merges packets: größer als MTU"), text("ethtool -K eth0 gro off"))
	findings.add(text("south1"), text("clock"), text("ok"), text(""))
	for _, test := range []struct {
		name  string
		width int
		want  string
	}{
		{"wide", 100, `
AGENT   CHECK     RESULT                               ADVICE
north1  offloads  eth0 merges packets: größer als MTU  ethtool -K eth0 gro off
south1  clock     ok                                   -
`},
		{"one column", 70, `
AGENT   CHECK     RESULT                       ADVICE
north1  offloads  eth0 merges packets: größer  ethtool -K eth0 gro off
                  als MTU
south1  clock     ok                           -
`},
		{"both columns", 54, `
AGENT   CHECK     RESULT             ADVICE
north1  offloads  eth0 merges        ethtool -K eth0
                  packets: größer    gro off
                  als MTU
south1  clock     ok                 -
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			if err := findings.wrapped(test.width, "found", "advice").write(&b, false); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > test.width {
					t.Errorf("more than %d columns: %q", test.width, line)
				}
			}
			words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
			if got := "\n" + b.String(); strings.Count(got, "\n") != strings.Count(test.want, "\n") || words(got) != words(test.want) {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestWrapText(t *testing.T) {
	for text, want := range map[string]string{"": "", "one two three": "one|two|three", "a b c": "a b c", "abcdefgh i": "abcdef|gh i", "größer": "größer"} {
		if got := strings.Join(wrapText(text, 6), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
