package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/study/experiment"
)

const inLab = `experiment: check
lab: pair.yaml
factors: {mark: [none, both]}
treatments: {mark: {none: {expect: bare}, both: {session: {modules: [delay]}}}}
run: {command: "echo {address.b} {address6.a} {address}"}
measures: {rate: {field: rate}}
stop: {blocks: 1}
environment: {pin: {run: 0, a: 0, source: 0}}
`

// TestCheck: what the lab's file and this machine show is found before anything runs.
func TestCheck(t *testing.T) {
	const pair = "name: checked\nhosts: {a: {}, b: {}}\nlinks: [{ends: [a, b]}]\n"
	for name, c := range map[string]struct{ lab, from, to, want string }{
		"valid":              {pair, "", "", ""},
		"no lab":             {"", "", "", "line 2: lab: read lab file: open "},
		"lab's mistake":      {"name: X\n", "", "", "line 2: lab: read lab file "},
		"address":            {pair, "{address.b}", "{address.mars}", "line 5: run.command: {address.mars} has no value here; there are address, address.a"},
		"host of the run":    {pair, "run: {", "run: {on: mars, ", `line 5: run.on: find host "mars": no such host in the lab or under hosts`},
		"host of a command":  {pair, "session: {", "on: mars, session: {", `line 4: treatments.mark.both.on: find host "mars"`},
		"host of the setup":  {pair, "run: {", "setup: {on: mars, start: 'true'}\nrun: {", `line 5: setup.on: find host "mars"`},
		"setup's address":    {pair, "run: {", "setup: {start: 'ping {address.mars}'}\nrun: {", "setup.start: {address.mars} has no value here"},
		"end of the session": {pair, "session: {", "session: {sources: [mars], ", `line 4: treatments.mark.both.session: find host "mars"`},
		"only on a server":   {pair, "session: {", "session: {both: true, ", "session: start session by hand: both: only a session on a server can have this"},
		"on a server":        {pair + "service: {server: b, agents: [a, b], forward: 18080}\n", "session: {", "session: {both: true, ", ""},
		"no forward":         {pair + "service: {server: b, agents: [a, b]}\n", "", "", "the lab's service needs forward"},
		"processor":          {pair, "run: 0", "run: 8000", "line 8: environment.pin.run: this machine has no such processor: bind to processor 8000"},
		"host of a pin":      {pair, "a: 0", "mars: 0", `environment.pin.mars: find host "mars"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, strings.Replace(inLab, c.from, c.to, 1))
			if c.lab != "" {
				if err := os.WriteFile(filepath.Join(filepath.Dir(path), "pair.yaml"), []byte(c.lab), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s, text, err := experiment.Read(path)
			if err == nil {
				err = Check(s, text)
			}
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, experiment.ErrSpec) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// TestCheckBeforeTheLock: what cannot run does not wait for another experiment first.
func TestCheckBeforeTheLock(t *testing.T) {
	o, _ := options(t, strings.Replace(local, "stop: {blocks: 2}", "stop: {blocks: 2}\nenvironment: {pin: {run: 8000}}", 1))
	release, err := lock(t.Context(), o.Lock, "other", false, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	o.Wait = true
	if err := Run(t.Context(), o); !errors.Is(err, experiment.ErrSpec) {
		t.Errorf("error is %v", err)
	}
	o.Spec.Environment.Pin = nil
	if err := experiment.Create(o.Folder, o.Spec, o.File, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	o.Spec.Seed++
	o.Resume = true
	if err := Run(t.Context(), o); !errors.Is(err, experiment.ErrChanged) {
		t.Errorf("error is %v", err)
	}
}

// TestCheckDevice: outside of a lab the interface of a session is not known.
func TestCheckDevice(t *testing.T) {
	o, _ := options(t, strings.NewReplacer("lab: pair.yaml", "hosts: {source: {local: true}, destination: {ssh: there}}",
		"{address.b} {address6.a} {address}", "x", ", a: 0", "").Replace(inLab))
	if err := Check(o.Spec, o.File); err == nil || !strings.Contains(err.Error(), "find interface of host source: give its device") {
		t.Errorf("error is %v", err)
	}
}
