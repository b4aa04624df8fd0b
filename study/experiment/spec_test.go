package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const minimal = `experiment: demo
factors: {mark: [none, both], every: [1, 10]}
run: {command: "echo {mark} {every}"}
measures: {rate: {field: rate}}
response: {log_ratio: rate, to: {mark: none}}
stop: {effect: mark, half_width: 2%}
`

func parse(t *testing.T, text string) *Spec {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseDefaults(t *testing.T) {
	s := parse(t, minimal)
	if s.Stop.Pilot != DefaultPilot || s.Stop.Most != DefaultMost || s.Stop.HalfWidth != 0.02 {
		t.Errorf("stop is %+v", s.Stop)
	}
	if time.Duration(*s.Run.Settle) != DefaultSettle || time.Duration(s.Run.Timeout) != DefaultTimeout || s.Run.Format != "json" {
		t.Errorf("run is %+v", s.Run)
	}
	if got := s.Factors[1].names(); !slices.Equal(got, []string{"1", "10"}) {
		t.Errorf("levels are %v", got)
	}
}

func TestParseKeepsOrder(t *testing.T) {
	s := parse(t, strings.Replace(minimal, "every: [1, 10]", "every: {zz: {n: 1}, aa: {n: 2, f: '0.10'}, mm: }", 1))
	if got := s.Factors[1].names(); !slices.Equal(got, []string{"zz", "aa", "mm"}) {
		t.Errorf("levels are %v", got)
	}
	if got := s.Factors[1].Levels[1].Parameters["f"]; got != "0.10" {
		t.Errorf("parameter is %q", got)
	}
}

// TestParseMistakes names what a user reads.
func TestParseMistakes(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"unknown key":          {"stop:", "colour: red\nstop:", `line 6: unknown field "colour"`},
		"no name":              {"experiment: demo", "experiment: ''", "line 1: experiment: \"\" is not a name"},
		"capital name":         {"experiment: demo", "experiment: Demo", "is not a name"},
		"no factor":            {"factors: {mark: [none, both], every: [1, 10]}", "factors: {}", "at least one factor"},
		"level twice":          {"[1, 10]", "[1, 1]", "line 2: factors.every: level 1 is given twice"},
		"level with space":     {"[1, 10]", "['a b']", "is not a level"},
		"own name":             {"every: [1, 10]", "block: [1]", "a name of the runner's own"},
		"unknown substitution": {"{every}", "{evry}", "line 3: run.command: {evry} has no value here"},
		"no command":           {`command: "echo {mark} {every}"`, "on: ''", "run.command: is required"},
		"format":               {"run: {", "run: {format: xml, ", "run.format: \"xml\" is not one of"},
		"duration":             {"run: {", "run: {settle: soon, ", "is not a duration"},
		"summary":              {"{field: rate}", "{field: rate, summary: most}", "measures.rate.summary"},
		"better":               {"{field: rate}", "{field: rate, better: more}", "not higher or lower"},
		"no measure":           {"log_ratio: rate", "log_ratio: speed", `no measure "speed"; the measures are rate`},
		"no level":             {"to: {mark: none}", "to: {mark: nothing}", `factor mark has no level "nothing"`},
		"half width":           {"2%", "200%", "is not a share"},
		"effect":               {"effect: mark", "effect: every", "not relative to a level of every"},
		"no stop":              {"stop: {effect: mark, half_width: 2%}", "stop: {}", "give effect and half_width"},
		"both stops":           {"stop: {", "stop: {blocks: 3, ", "either a number of blocks"},
		"pilot":                {"stop: {", "stop: {pilot: 2, ", "stop.pilot: 2 is not between 3"},
		"order":                {"stop:", "design: {order: sequential}\nstop:", "only random is supported"},
		"exclude all":          {"stop:", "exclude: ['mark=none', 'mark=both']\nstop:", "no cell is left"},
		"exclude base":         {"stop:", "exclude: ['mark=none']\nstop:", "no cell has mark=none"},
		"exclude syntax":       {"stop:", "exclude: ['mark']\nstop:", "line 6: exclude[0]: \"mark\" is not a selection"},
		"exclude level":        {"stop:", "exclude: ['mark=x']\nstop:", `factor mark has no level "x"`},
		"expression":           {"stop:", "invalid: 'delivered <'\nstop:", "line 6: invalid: column 12"},
		"expression type":      {"stop:", "invalid: '1 + 2'\nstop:", "is a number, not a condition"},
		"target bound":         {"stop:", "targets: [{where: 'mark=both'}]\nstop:", "give one of at_least"},
		"target where":         {"stop:", "targets: [{where: 'mark=all', at_least: 1}]\nstop:", `factor mark has no level "all"`},
		"target without where": {"stop:", "targets: [{at_least: 1}]\nstop:", "line 6: targets[0].where: is required"},
		"target of the base":   {"stop:", "targets: [{where: 'mark=none every=1,10', at_least: 1}]\nstop:", `targets[0].where: "every=1,10 mark=none" selects only mark=none, which ratios are relative to`},
		"target kind":          {"stop:", "targets: [{where: 'mark=both', of: sum, at_least: 1}]\nstop:", `"sum" is not ratio or mean`},
		"value within":         {"stop:", "targets: [{where: 'mark=both', of: mean, within: 2%}]\nstop:", "and a ratio to it"},
		"ratio of nothing":     {"response: {log_ratio: rate, to: {mark: none}}\nstop: {effect: mark, half_width: 2%}", "targets: [{where: 'mark=both', measure: rate, of: ratio, at_least: 1}]\nstop: {blocks: 3}", "needs a response"},
		"treatment factor":     {"stop:", "treatments: {load: {}}\nstop:", `no factor "load"`},
		"treatment level":      {"stop:", "treatments: {mark: {some: {}}}\nstop:", `factor mark has no level "some"`},
		"treatment hosts":      {"stop:", "treatments: {mark: {both: {session: {modules: [delay]}}}}\nstop:", "needs hosts"},
		"session field":        {"stop:", "lab: l.yaml\ntreatments: {mark: {both: {session: {modul: x}}}}\nstop:", `unknown field "modul"`},
		"session module":       {"stop:", "lab: l.yaml\ntreatments: {mark: {both: {session: {modules: [dellay]}}}}\nstop:", `line 7: treatments.mark.both.session.modules[0]: unknown module "dellay"; valid: delay, loss`},
		"invalid measure":      {"stop:", "invalid: 'rate'\nstop:", "line 6: invalid: column 1: the expression is a number, not a condition"},
		"expect measure":       {"stop:", "treatments: {mark: {both: {expect: 'rate == \"x\"'}}}\nstop:", "mark.both.expect: column 6: a number cannot equal a text"},
		"expect of no session": {"stop:", "treatments: {mark: {both: {expect: 'marked > 0'}}}\nstop:", "mark.both.expect: marked: no treatment of these cells has a session"},
		"list as figure":       {"{field: rate}", "{field: a.*.rate}", "line 4: measures.rate.summary: is required, since * collects a list"},
		"fraction":             {"2%}", "2%, pilot: 3.9}", `line 6: stop.pilot: "3.9" is not a whole number`},
		"share":                {"2%}", "0}", `line 6: stop.half_width: "0" is not a share`},
		"and":                  {"stop:", "invalid: 'a > 1 and b'\nstop:", "write && for and, || for or"},
		"tab":                  {"stop:", "\tx: 1\nstop:", "a tab: indent with spaces"},
		"several":              {"stop:", "invalid: 'a <'\nexclude: ['mark']\nbad: 1\nworse: 1\nstop:", "line 7: exclude[0]: \"mark\" is not a selection of cells, such as mark=both every=1\ninvalid experiment: line 8: unknown field \"bad\"\ninvalid experiment: line 9: unknown field \"worse\""},
		"host":                 {"run: {", "run: {on: a, ", `no host "a"`},
		"setup without start":  {"stop:", "setup: {stop: x}\nstop:", "line 6: setup.start: is required"},
		"setup of a cell":      {"stop:", "setup: {start: 'make {mark}'}\nstop:", "setup.start: {mark} has no value here; there are agent, scratch, seed"},
		"setup timeout":        {"stop:", "setup: {start: x, timeout: 200h}\nstop:", "setup.timeout: 8d8h is not between"},
		"setup host":           {"stop:", "setup: {start: x, on: a}\nstop:", `setup.on: no host "a"`},
		"scratch alone":        {"{every}", "{scratch}", "{scratch} has no value here"},
		"ssh option":           {"stop:", "hosts: {a: {ssh: '-oProxyCommand=x'}}\nstop:", "begins with a hyphen"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(minimal, c.from, c.to, 1)
			if text == minimal {
				t.Fatal("nothing was replaced")
			}
			_, err := Parse([]byte(text))
			if err == nil || !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

func TestCellsAndBases(t *testing.T) {
	s := parse(t, strings.Replace(minimal, "stop:", "exclude: [\"mark=none every=10\"]\ndesign: {null_arm: true}\nstop:", 1))
	cells := s.Cells()
	var names []string
	for _, c := range cells {
		names = append(names, s.Name(c))
	}
	want := []string{"mark=none every=1", "mark=both every=1", "mark=both every=10"}
	if !slices.Equal(names, want) {
		t.Fatalf("cells are %q", names)
	}
	of, err := s.bases(cells)
	if err != nil || !slices.Equal(of, []int{0, 0, 0}) {
		t.Errorf("bases are %v, %v", of, err)
	}
	for block := range 50 {
		seen := map[[2]int]int{}
		turns := s.Order(block)
		for i, turn := range turns {
			null := 0
			if turn.Null {
				null = 1
			}
			seen[[2]int{turn.Cell.Index, null}]++
			if turn.Position != i || turn.Block != block {
				t.Fatalf("turn %d of block %d is %+v", i, block, turn)
			}
		}
		if len(turns) != 4 || len(seen) != 4 {
			t.Fatalf("block %d has %v", block, turns)
		}
	}
}

// TestOrderIsFixed pins the order that follows from a seed: results of earlier versions
// have to be continued with the same one.
func TestOrderIsFixed(t *testing.T) {
	s := parse(t, strings.Replace(minimal, "experiment: demo", "experiment: demo\nseed: 11", 1))
	var got []int
	for block := range 3 {
		for _, turn := range s.Order(block) {
			got = append(got, turn.Cell.Index)
		}
	}
	if want := []int{1, 0, 3, 2, 3, 2, 1, 0, 2, 3, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("order is %v, want %v", got, want)
	}
}

func TestValues(t *testing.T) {
	s := parse(t, strings.NewReplacer("every: [1, 10]", "load: {a: {family: 6, payload: 56, nested: '-{load.family} {mark}-', circle: '{circle}', wrong: '{absent}'}, b: {family: 4}}", "{every}", "{family}").Replace(minimal))
	v := s.Values(s.Cells()[0], Turn{Block: 2, Position: 1, Attempt: 1})
	for text, want := range map[string]string{
		"{mark} {load} {family} {load.family} {payload=0}": "none a 6 6 56",
		"{block}/{position}/{attempt}":                     "2/1/1",
		"awk '{{print $1}}' ${x} {missing=}":               "awk '{print $1}' ${x} ",
		`{"json": 1}`:                                      `{"json": 1}`,
		"{nested} {load.nested} {parameter=x}":             "-6 none- -6 none- x",
	} {
		if got, err := v.Replace(text); err != nil || got != want {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"{absent}": "{absent} has no value here", "{wrong}": "in the value of {wrong}: {absent} has no value here",
		"{circle}": "the value of {circle} contains itself",
	} {
		if _, err := v.Replace(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q", text, err, want)
		}
	}
	replaced, err := v.ReplaceAll(map[string]any{"sampling": map[string]any{"every": "{family}"}, "names": []any{"x-{mark}"}})
	if err != nil {
		t.Fatal(err)
	}
	m := replaced.(map[string]any)
	if every := m["sampling"].(map[string]any)["every"]; every != uint64(6) {
		t.Errorf("every is %#v", every)
	}
	if name := m["names"].([]any)[0]; name != "x-none" {
		t.Errorf("name is %#v", name)
	}
	s.Lab = "lab.yaml" // addresses are known once it is up
	later := s.Values(Cell{Levels: map[string]string{"load": "a"}}, Turn{})
	later["load.nested"] = "{address6.far}"
	if got, err := later.Replace("{load.nested}"); err != nil || got != "{address6.far}" {
		t.Errorf("before the lab: %q, %v", got, err)
	}
	later.AddHosts(map[string]string{"address6.far": "fd00::2", "agent": "/{mark}/agent"})
	if got, err := later.Replace("{load.nested} {agent}"); err != nil || got != "fd00::2 /{mark}/agent" {
		t.Errorf("in the lab: %q, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte("experiment: x\nfactors: {a: {b: {c: 1}}}\nstop: {blocks: 1}\n"))
	f.Add([]byte("factors: [a]\ninvalid: 'a.b < 1 && !c'"))
	f.Add([]byte("lab: a\ntreatments: {a: {b: {session: {sampling: {every: '{c}'}}, expect: bare}}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if _, err := s.Hash(); err != nil {
			t.Error(err)
		}
		if len(s.Order(1)) < len(s.Cells()) {
			t.Error("an order has fewer runs than cells")
		}
		Progress(s, nil)
	})
}
