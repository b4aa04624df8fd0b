package document

import (
	"errors"
	"strings"
	"testing"

	"pillion.dev/internal/quantity"
)

type sample struct {
	Name  string
	Count int
	Share float64
	On    *bool
	Every map[string]uint64 `yaml:"every"`
	Wait  quantity.Duration
	Rest  map[string]any
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"good", "name: 5\ncount: 0x10\nshare: 2\non: true\nevery: {a: 1e3}\nwait: 5s\nrest: {x: [1]}\n", ""},
		{"null", "name:\ncount:\non:\n", ""},
		{"no document", "", ""},
		{"syntax", "a: [", ""},
		{"fraction", "count: 3.9", `line 1: count: "3.9" is not a whole number`},
		{"several", "colour: red\nevery: {a: 1, b: 2.5}\nwait: 5\nshare: 95%\non: 3\nsize: 3\n",
			"line 1: unknown field \"colour\"\nline 2: every.b: \"2.5\" is not a whole number\nline 3: wait: \"5\" is not a duration such as 500ms, 1h30m or 7d\n" +
				"line 4: share: \"95%\" is not a number\nline 5: on: \"3\" is not true or false\nline 6: unknown field \"size\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all []error
			for _, mistake := range Mistakes([]byte(test.text), sample{}) {
				all = append(all, mistake)
			}
			got := ""
			if err := errors.Join(all...); err != nil {
				got = err.Error()
			}
			if strings.TrimSpace(got) != test.want {
				t.Errorf("mistakes are\n%s", got)
			}
		})
	}
}

func FuzzMistakes(f *testing.F) {
	f.Add([]byte("name: 5\ncount: 3.9\nevery: {a: 1}\nrest: {x: [1]}"))
	f.Fuzz(func(_ *testing.T, text []byte) { Mistakes(text, sample{}) })
}
