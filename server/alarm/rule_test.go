package alarm

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
)

func TestRules(t *testing.T) {
	for name, test := range map[string]struct {
		rule Rule
		want string // part of the error; empty: none
	}{
		"loss":              {Rule{Name: "a", On: Loss, Above: "2%"}, ""},
		"share":             {Rule{Name: "a", On: Loss, Above: "0.02"}, ""},
		"no name":           {Rule{On: Loss, Above: "2%"}, "name"},
		"no condition":      {Rule{Name: "a"}, "use loss, delay-p50"},
		"no threshold":      {Rule{Name: "a", On: Loss}, "is not a share"},
		"whole":             {Rule{Name: "a", On: Loss, Above: "100%"}, "below 100%"},
		"delay":             {Rule{Name: "a", On: DelayP99, Above: "20ms"}, ""},
		"delay of a share":  {Rule{Name: "a", On: DelayP99, Above: "2%"}, "use a delay"},
		"negative delay":    {Rule{Name: "a", On: DelayP99, Above: "-2ms"}, "use a delay"},
		"useless threshold": {Rule{Name: "a", On: Silence, Above: "2%"}, "has no threshold"},
		"short window":      {Rule{Name: "a", On: Silence, Over: time.Millisecond}, "want 1s to 1h"},
		"window of a path":  {Rule{Name: "a", On: Path, Over: time.Minute}, "has no window"},
		"packets of agents": {Rule{Name: "a", On: AgentSilence, Packets: 5}, "counts none"},
		"negative time":     {Rule{Name: "a", On: Silence, For: -1}, "for"},
		"selectors":         {Rule{Name: "a", On: Silence, Sources: []string{"a", "site=b", "*"}}, ""},
		"bad selector":      {Rule{Name: "a", On: Silence, Sources: []string{"a b"}}, "is not an agent name"},
		"agents of pairs":   {Rule{Name: "a", On: Silence, Agents: []string{"a"}}, "use sources and destinations"},
		"sources of agents": {Rule{Name: "a", On: AgentSilence, Sources: []string{"a"}}, "use agents"},
		"reserved label":    {Rule{Name: "a", On: Silence, Labels: map[string]string{"source": "b"}}, "its own source"},
		"bad label":         {Rule{Name: "a", On: Silence, Labels: map[string]string{"a-b": "b"}}, "letters, digits"},
		"annotation":        {Rule{Name: "a", On: Silence, Annotations: map[string]string{"summary": "b"}}, "except summary"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := CompleteRules([]Rule{usual}, []Rule{test.rule})
			if test.want == "" {
				if err != nil || len(all) != 2 {
					t.Errorf("got %+v, %v", all, err)
				}
				return
			}
			if !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	twice := Rule{Name: "a", On: Silence}
	if _, err := CompleteRules(nil, []Rule{twice, twice}); err == nil {
		t.Error("two rules have one name")
	}
}

// TestRuleOfSubset: a configured rule on a condition replaces the built-in one for the pairs that it selects.
func TestRuleOfSubset(t *testing.T) {
	all, err := CompleteRules([]Rule{usual, {Name: "silence", On: Silence}}, []Rule{{Name: "paris", On: Loss, Above: "5%", Sources: []string{"site=paris"}}})
	if err != nil {
		t.Fatal(err)
	}
	var rules []*Rule
	for i := range all {
		rules = append(rules, &all[i])
	}
	for source, want := range map[string]string{"a": "paris", "b": "loss"} {
		p := &pair{Subject: Subject{Session: "s", Source: source, Destination: "c"}}
		p.choose(rules, directory{"a": {"site": "paris"}, "b": {}}, 1)
		if len(p.sums) != 1 || p.sums[0].rule.Name != want || len(p.silences) != 1 {
			t.Errorf("%s: got %d rules on loss, %d on silence, want %s", source, len(p.sums), len(p.silences), want)
		}
	}
}

func TestSelectors(t *testing.T) {
	d := directory{"a": {"site": "paris", "core": ""}, "b": {"site": "lyon"}, "core": {}}
	for selector, want := range map[string]string{"*": "a b core", "a": "a", "site=paris": "a", "site": "a b", "core": "core", "site=": "", "none": ""} {
		var got []string
		for _, agent := range []string{"a", "b", "core"} {
			if d.selects([]string{selector}, agent) {
				got = append(got, agent)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s selects %v, want %s", selector, got, want)
		}
	}
}

func TestMatchers(t *testing.T) {
	labels := map[string]string{"alertname": "loss", "source": "a"}
	for text, want := range map[string]bool{
		"alertname=loss": true, "alertname = loss": true, `alertname="loss"`: true, "alertname!=loss": false, "alertname=~lo.*": true,
		"alertname=~lo": false, "alertname!~l|s": true, "site=": true, "site!=": false, "source=~a|b": true,
	} {
		m, err := ParseMatcher(text)
		if err != nil || m.Matches(labels) != want {
			t.Errorf("%s: got %v, %v", text, !want, err)
		}
	}
	for _, text := range []string{"", "a", "=b", "a!b", "a-b=c", "a=~(", `a="b`, "a=\xff"} {
		if m, err := ParseMatcher(text); !errors.Is(err, ErrMatcher) {
			t.Errorf("%q: got %+v, %v", text, m, err)
		}
	}
}

// FuzzMatcher: a matcher that was read is read again from its own text, and means the same.
func FuzzMatcher(f *testing.F) {
	for _, seed := range []string{"a=b", `a!="b c"`, "a=~b.*", "a!~(", "=", `a="\x00"`} {
		f.Add(seed, "b")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		m, err := ParseMatcher(text)
		if err != nil {
			return
		}
		again, err := ParseMatcher(m.String())
		labels := map[string]string{m.Name: value}
		if err != nil && len(m.String()) <= matcherBytes || err == nil && again.Matches(labels) != m.Matches(labels) {
			t.Errorf("%q becomes %q: %v", text, m, err)
		}
	})
}

// FuzzRule: rules with any texts are refused or complete, and completing them again changes nothing.
func FuzzRule(f *testing.F) {
	f.Add("loss", "2%", "site=a")
	f.Add("delay-p99", "20ms", "a")
	f.Add("path", "", "*")
	f.Fuzz(func(t *testing.T, on, above, selector string) {
		r, err := Rule{Name: "r", On: on, Above: above, Sources: []string{selector}}.complete()
		if err != nil {
			return
		}
		again, err := r.complete()
		if err != nil || again.share != r.share || again.delay != r.delay || r.sums() && !(r.share >= 0 && r.share < 1) {
			t.Errorf("got %+v, then %+v, %v", r, again, err)
		}
	})
}

// Fingerprints are those of the labels alone.
func TestFingerprint(t *testing.T) {
	labels := map[string]string{"alertname": "loss", "source": "a"}
	other := maps.Clone(labels)
	other["source"] = "b"
	if got := Fingerprint(nil); got != "cbf29ce484222325" { // the offset basis of FNV-1a
		t.Errorf("no labels: %s", got)
	}
	if Fingerprint(labels) == Fingerprint(other) || Fingerprint(labels) != Fingerprint(maps.Clone(labels)) {
		t.Error("fingerprints do not distinguish labels")
	}
}
