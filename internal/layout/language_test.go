package layout

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write "+languageList)

// languageList says how often each room breaks each rule of language, as RULE ROOM NUMBER. With -update, which
// writes it, the sum of a rule only falls.
const languageList = "internal/layout/testdata/language.txt"

var languageRules = []struct {
	name, advice string
	files, fault *regexp.Regexp
}{
	{"that-of", "repeat the noun, so that the sentence stands alone", regexp.MustCompile(`\.(go|c|h|lua|ts|tsx|proto|py)$`), regexp.MustCompile(`(?i)\b(that|those) of\b`)},
	{"most-least", "end names of bounds in Max and Min", regexp.MustCompile(`\.go$`), regexp.MustCompile(`\b(most|least)[A-Z]|[a-z](Most|Least)\b`)},
}

// TestLanguage checks that no room breaks a rule of language more often than the list says, and that the list is
// up to date.
func TestLanguage(t *testing.T) {
	list, err := os.ReadFile(languageList)
	if err != nil {
		t.Fatal(err)
	}
	var now strings.Builder
	for _, rule := range languageRules {
		found, listed := map[string]int{}, map[string]int{}
		sum := 0
		eachWatched(t, nil, func(name string, text []byte) {
			if rule.files.MatchString(name) {
				room, _, _ := strings.Cut(name, "/")
				n := len(rule.fault.FindAll(text, -1))
				found[room], sum = found[room]+n, sum+n
			}
		})
		for _, line := range regexp.MustCompile(`(?m)^`+rule.name+` .*`).FindAllString(string(list), -1) {
			var room string
			var n int
			if _, err := fmt.Sscanf(line, rule.name+" %s %d", &room, &n); err != nil {
				t.Fatalf("%s: read %q: %v", languageList, line, err)
			}
			listed[room], sum = n, sum-n
		}
		for _, room := range slices.Sorted(maps.Keys(found)) {
			if n := found[room]; n > 0 {
				fmt.Fprintln(&now, rule.name, room, n)
			}
			if found[room] > listed[room] && (!*update || sum > 0) {
				t.Errorf("%s: %d times %s, and %d are listed: %s", room, found[room], rule.name, listed[room], rule.advice)
			}
		}
	}
	switch {
	case t.Failed() || now.String() == string(list):
	case !*update:
		t.Errorf("%s lists more than there is: go test ./internal/layout -run TestLanguage -update", languageList)
	default:
		if err := os.WriteFile(languageList, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
