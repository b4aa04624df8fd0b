package commandtest

import (
	"errors"
	"reflect"
	"testing"
)

func TestShellCommands(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         [][]string
		fault        error
	}{
		{"words", `a 'b c' "d e"f g\ h  # i`, [][]string{{"a", "b c", "d ef", "g h"}}, nil},
		{"empty word", `a '' ""`, [][]string{{"a", "", ""}}, nil},
		{"continued", "a \\\n  b\nc", [][]string{{"a", "b"}, {"c"}}, nil},
		{"lists", "a | b && c; d & (e)", [][]string{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}}, nil},
		{"redirections", "a >b 2>&1 c <d >>e", [][]string{{"a", "c"}}, nil},
		{"substitution", `a "$(b c)" $(d | e)f ${g}`, [][]string{{"b", "c"}, {"d"}, {"e"}, {"a", "x", "xf", "${g}"}}, nil},
		{"process substitution", `source <(a b)`, [][]string{{"a", "b"}, {"source", "x"}}, nil},
		{"here-document", "a <<'END' b\nc 'd\nEND\ne", [][]string{{"a", "b"}, {"e"}}, nil},
		{"hash in a word", `a b#c`, [][]string{{"a", "b#c"}}, nil},
		{"quote in quotes", `a "b\"c" "it's"`, [][]string{{"a", `b"c`, "it's"}}, nil},
		{"open quote", `a 'b`, nil, errUnclosed},
		{"open quoted word", `a "b`, nil, errUnclosed},
		{"open substitution", `a $(b`, nil, errUnclosed},
		{"open here-document", "a <<END\nb\n", nil, errUnclosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ShellCommands(test.script)
			if !errors.Is(err, test.fault) || !reflect.DeepEqual(got, test.want) {
				t.Errorf("%q, %v; want %q, %v", got, err, test.want, test.fault)
			}
		})
	}
}

func FuzzShellCommands(f *testing.F) {
	f.Add("a <<'END' 2>&1 \"$(b 'c')\" \\\n # d\nEND\n")
	f.Fuzz(func(t *testing.T, script string) {
		commands, err := ShellCommands(script)
		for _, command := range commands {
			if len(command) == 0 || err != nil {
				t.Errorf("%q of %q, %v", commands, script, err)
			}
		}
	})
}
