package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/lab/emulator"
)

const wholeSpec = `name: demo
hosts:
  a: {}
  r: { forward: true, ioam: 0x101 }
  b: {}
links:
  - ends: [a, r]
  - ends: [r, b]
    name: slow
    interfaces: [east, west]
    addresses: { b: [192.0.2.2/30] }
    mtu: 9000
    emulate:
      seed: 7
      delay: 5ms
      jitter: 200us
      loss: 1%
      duplicate: 0.1%
      reorder: 0.5%
      reorder_gap: 2ms
      keep_order: true
      rate: 100mbit
      queue: 64kB
      from: { b: { loss: 0, delay: 1ms } }
      truth: /tmp/truth
      packets: true
`

func TestParseWholeSpec(t *testing.T) {
	spec, err := ParseSpec([]byte(wholeSpec))
	if err != nil {
		t.Fatal(err)
	}
	if spec.Name != "demo" || len(spec.Hosts) != 3 || !spec.Hosts["r"].Forward || spec.Hosts["r"].IOAM != 0x101 || spec.Hosts["a"].IOAM != 0 ||
		spec.Routes != "auto" {
		t.Errorf("got %+v", spec)
	}
	first, slow := spec.Links[0], spec.Links[1]
	if got := fmt.Sprint(first.Name, first.Interfaces, first.Addresses, first.MTU); got !=
		"a-r[r a] map[a:[10.77.1.1/24 fd77:0:0:1::1/64] r:[10.77.1.2/24 fd77:0:0:1::2/64]] 1500" {
		t.Errorf("defaults are %s", got)
	}
	if got := fmt.Sprint(slow.Name, slow.Interfaces, slow.Addresses, slow.MTU); got !=
		"slow[east west] map[b:[192.0.2.2/30] r:[10.77.2.1/24 fd77:0:0:2::1/64]] 9000" {
		t.Errorf("given values are %s", got)
	}
	faults, err := slow.faults()
	if err != nil {
		t.Fatal(err)
	}
	ms := emulator.Duration(time.Millisecond)
	want := emulator.Faults{
		Delay: 5 * ms, Jitter: ms / 5, KeepOrder: true, Loss: 0.01, Duplicate: 0.001, Reorder: 0.005,
		ReorderGap: 2 * ms, Rate: 1e8, Queue: emulator.Queue{Bytes: 64000},
	}
	if faults[0] != want {
		t.Errorf("from r: got %+v, want %+v", faults[0], want)
	}
	want.Loss, want.Delay = 0, ms
	if faults[1] != want {
		t.Errorf("from b: got %+v, want %+v", faults[1], want)
	}
	if e := slow.Emulate; e.Seed != 7 || !e.Packets || e.Truth != "/tmp/truth" {
		t.Errorf("got %+v", e)
	}
}

// The example is the file that README.md refers to.
func TestExampleFile(t *testing.T) {
	spec, err := ReadSpec("two-hosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if spec.Service == nil || spec.Service.Forward != 8470 || len(spec.Hosts["a"].Run) == 0 {
		t.Errorf("got %+v", spec)
	}
}

// The file in README.md is valid.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if _, err := ParseSpec([]byte(example)); err != nil || !found {
		t.Errorf("example in README.md: %v", err)
	}
}

func TestParseMistakes(t *testing.T) {
	const start = "name: x\nhosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n"
	tests := map[string]struct{ text, want string }{
		"empty":              {"", "name"},
		"no YAML":            {"name: [", "line 1"},
		"tab":                {"name: x\n\thosts: {}", "line 2"},
		"unknown key":        {"name: x\nhost: {a: {}}", `line 2: unknown field "host"`},
		"unknown in host":    {"name: x\nhosts:\n  a: {forwards: true}", `line 3: unknown field "forwards"`},
		"unknown in link":    {start + "    rate: 1mbit\n", `line 5: unknown field "rate"`},
		"unknown in emulate": {start + "    emulate:\n      dealy: 5ms\n", `line 6: unknown field "dealy"`},
		"unknown in from":    {start + "    emulate:\n      from:\n        a:\n          seed: 5\n", `line 8: unknown field "seed"`},
		"duplicate host":     {"name: x\nhosts:\n  a: {}\n  a: {}\n", "line 4"},
		"bad duration":       {start + "    emulate:\n      delay: 5\n", "line 6: parse duration \"5\""},
		"bad percentage":     {start + "    emulate:\n      loss: 1\n", "line 6: parse fraction \"1\""},
		"bad rate":           {start + "    emulate:\n      rate: fast\n", "line 6: parse rate \"fast\""},
		"bad queue":          {start + "    emulate:\n      queue: -1\n", "line 6: parse queue \"-1\""},
		"bad seed":           {start + "    emulate:\n      seed: -1\n", "line 6"},
		"jitter too large":   {start + "    emulate:\n      jitter: 1ms\n", "line 6: emulate: check jitter"},
		"lab name":           {"name: my-lab\nhosts: {a: {}}", `line 1: lab name "my-lab"`},
		"lab name too long":  {"name: abcdefghijklmnop\nhosts: {a: {}}", "line 1: lab name"},
		"no hosts":           {"name: x\nhosts: {}", "lab x: has no hosts"},
		"host name":          {"name: x\nhosts:\n  A: {}", `line 3: host name "A"`},
		"host name too long": {"name: x\nhosts: {abcdefghijklmnop: {}}", "line 2: host name"},
		"host name lo":       {"name: x\nhosts: {lo: {}}", `line 2: host name "lo"`},
		"unknown end":        {"name: x\nhosts: {a: {}}\nlinks:\n  - ends: [a, c]\n", `line 4: link end "c": no such host`},
		"one end":            {"name: x\nhosts: {a: {}}\nlinks:\n  - ends: [a]\n", "line 4: link : has 1 ends"},
		"same end":           {"name: x\nhosts: {a: {}}\nlinks:\n  - ends: [a, a]\n", "line 4"},
		"same link twice":    {start + "  - ends: [a, b]\n", "line 5: link name a-b: already taken"},
		"same interface":     {start + "  - ends: [a, b]\n    name: c\n", "line 5: interface b of a: already taken"},
		"interface name":     {start + "    interfaces: [eth0, x/y]\n", `line 5: interface name "x/y"`},
		"address of nobody":  {start + "    addresses: {c: [10.0.0.1/8]}\n", `line 5: addresses of "c"`},
		"address no length":  {start + "    addresses: {a: [10.0.0.1]}\n", "line 5"},
		"address twice":      {start + "    addresses: {a: [10.0.0.1/8], b: [10.0.0.1/8]}\n", "address 10.0.0.1 of b: already taken by a"},
		"mtu":                {start + "    mtu: 100\n", "line 5: mtu 100"},
		"routes":             {start + "routes: some\n", `line 5: routes "some"`},
		"neighbours":         {start + "neighbours: some\n", `line 5: neighbours "some"`},
		"truth nowhere":      {start + "    emulate: {truth: /nonexistent/x}\n", `line 5: truth "/nonexistent/x": no such folder`},
		"truth twice": {start + "    emulate: {truth: /tmp/x}\n  - {name: c, interfaces: [c, c], ends: [a, b], emulate: {truth: /tmp/x}}\n",
			`line 6: truth "/tmp/x": already taken`},
		"from nobody":     {start + "    emulate:\n      from: {c: {}}\n", `line 6: emulate from "c"`},
		"hosts is a list": {"name: x\nhosts: [a, b]\n", "line 2"},
		"ioam too large":  {"name: x\nhosts:\n  a: {ioam: 0xffffff}\n", "line 3: ioam 0xffffff of host a: not from 0x1 to 0xfffffe"},
		"ioam twice":      {"name: x\nhosts:\n  a: {ioam: 7}\n  b: {ioam: 0x7}\n", "line 4: ioam 0x7 of host b: already taken by a"},
		"ioam negative":   {"name: x\nhosts:\n  a: {ioam: -1}\n", "line 3"},
		"empty command":   {"name: x\nhosts:\n  a: {run: [' ']}\n", "line 3: run of host a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSpec([]byte(test.text))
			if err == nil {
				t.Fatal("no error")
			}
			if !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, test.want)
			}
		})
	}
}

// Any text yields a valid spec or an error of one line.
func FuzzParseSpec(f *testing.F) {
	f.Add(wholeSpec)
	f.Add("name: x\nhosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {rate: 1mbit}\n")
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec([]byte(text))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
			return
		}
		if err := spec.validate(); err != nil {
			t.Errorf("completed spec is not valid: %v", err)
		}
		spec.routes()
	})
}

// TestFiles reads the lab files that the documents name.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %v: %v", files, err)
	}
	for _, file := range files {
		if _, err := ReadSpec(file); err != nil {
			t.Error(err)
		}
	}
}
