package session

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/measure/point"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

var update = flag.Bool("update", false, "write docs/reference/session.md")

const referenceFile = "../docs/reference/session.md"

// TestReference compares docs/reference/session.md with the specification; -update writes it.
func TestReference(t *testing.T) {
	want := reference(t)
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(referenceFile); err != nil || string(got) != want {
		t.Errorf("%s differs from the specification (%v): run go test ./session -update", referenceFile, err)
	}
}

// TestReferenceExample: the examples are valid, and together have every key.
func TestReferenceExample(t *testing.T) {
	var all strings.Builder
	for _, match := range regexp.MustCompile(`(?s)<<'EOF'\n(.*?)EOF\n`).FindAllStringSubmatch(referenceEnd, -1) {
		spec, err := ParseSpec([]byte(match[1]))
		if err != nil {
			t.Fatalf("%v\n%s", err, match[1])
		}
		for _, problem := range spec.Validate() {
			t.Errorf("%s: %v", spec.Name, problem)
		}
		all.WriteString(match[1])
	}
	for _, k := range keysOf(t, reflect.TypeFor[Spec](), "") {
		if name := k.name[strings.LastIndex(k.name, ".")+1:]; !strings.Contains(all.String(), name+":") {
			t.Errorf("the examples lack %s", k.name)
		}
	}
}

// beginning of a comment that repeats the name, as in "Lease is how long" but not in
// "Duration of a run": a table does without it.
var beginning = regexp.MustCompile(`^\w+ (?:(?:is|are) (?:the )?|(measures|select|applies|also|marks|starts)\b)`)

// referenceKey is one key of the specification.
type referenceKey struct {
	name, option, comment string
	kind                  reflect.Type
}

// keysOf returns the keys of a struct in their order, with those inside after a dot.
func keysOf(t *testing.T, of reflect.Type, before string) []referenceKey {
	t.Helper()
	docs := comments(t, of.Name())
	var keys []referenceKey
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Anonymous {
			keys = append(keys, keysOf(t, field.Type, before)...)
			continue
		}
		k := referenceKey{name: before + yamlName(field), kind: field.Type}
		if tag := field.Tag; tag.Get("help") != "" || k.name == "name" { // whose option is that of one command only
			k.option = cmp.Or(tag.Get("name"), strings.ReplaceAll(yamlName(field), "_", "-"))
		}
		if k.comment = beginning.ReplaceAllString(docs[field.Name], "$1"); k.comment == "" {
			t.Fatalf("%s.%s has no comment", of.Name(), field.Name)
		}
		k.comment = strings.ToUpper(k.comment[:1]) + k.comment[1:]
		keys = append(keys, k)
		switch inner := field.Type; {
		case inner == reflect.TypeFor[Sampling]():
			keys = append(keys, keysOf(t, inner, k.name+".")...)
		case inner == reflect.TypeFor[[]PointRequest]():
			keys = append(keys, keysOf(t, inner.Elem(), k.name+".")...)
		}
	}
	return keys
}

func yamlName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
	return name
}

// comments returns those of a struct's fields, by field.
func comments(t *testing.T, structure string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range []string{"spec.go", "point.go", "../wire/marking.go", "../wire/sampling.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if declared, ok := node.(*ast.TypeSpec); ok && declared.Name.Name == structure && !declared.Assign.IsValid() {
				for _, field := range declared.Type.(*ast.StructType).Fields.List {
					if len(field.Names) == 0 {
						continue
					}
					found[field.Names[0].Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
			}
			return true
		})
	}
	return found
}

// typeText names the type of a value in YAML.
func typeText(kind reflect.Type) string {
	switch kind {
	case reflect.TypeFor[string](), reflect.TypeFor[fivetuple.Fields]():
		return "text"
	case reflect.TypeFor[[]string]():
		return "list of text"
	case reflect.TypeFor[bool]():
		return "true or false"
	case reflect.TypeFor[uint32]():
		return "integer"
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[time.Time]():
		return "time, RFC 3339"
	case reflect.TypeFor[[]fivetuple.Filter]():
		return "list of filters"
	case reflect.TypeFor[Sampling](), reflect.TypeFor[map[string]string]():
		return "map"
	case reflect.TypeFor[map[string]Sampling]():
		return "map of agents to `sampling`"
	case reflect.TypeFor[[]PointRequest]():
		return "list of maps"
	}
	return kind.String()
}

// values are the valid ones, by key; keys without a restriction are not listed.
func values() map[string]string {
	span := func(name string) string { return setting(name).Range() }
	selectors := fmt.Sprintf("1 to %d", selectorsMax)
	agents := fmt.Sprintf("up to %d agents", hostsMax)
	return map[string]string{
		"name": "up to 63 characters", "sources": selectors, "destinations": selectors, "routers": fmt.Sprintf("up to %d", selectorsMax),
		"modules": setting("modules").Range(), "encoding": "[list](encodings.md)",
		"family": span("family"), "granularity": span("granularity"),
		"filters": fmt.Sprintf("up to %d", RulesMax), "sampling_for": agents, "device": agents,
		"sampling.min_gap": span("min_gap"), "interval": span("interval"), "lease": span("lease"), "stamp_every": span("stamp_every"), "duration": span("duration"),
		"hops": span("hops"), "hops_gap": span("hops_gap"),
		"flow": span("flow"), "flows": span("flows"), "idle": span("idle"), "block": span("block"),
		"trace": span("trace") + ", or negative", "start": "1970 to 2200", "cron": "five fields",
		"points.name": "a [point](#points)", "points.agents": fmt.Sprintf("up to %d", selectorsMax),
	}
}

// defaultText is the default of a key, or that it is required.
func defaultText(key string) string {
	if slices.ContainsFunc((Spec{}).Validate(), func(p Problem) bool { return p.Field == key }) || key == "points.name" {
		return "required"
	}
	complete := reflect.ValueOf(Spec{Cron: "0 0 * * *"}.Complete())
	for _, field := range reflect.VisibleFields(complete.Type()) {
		if yamlName(field) != key || key == "cron" {
			continue
		}
		switch value := complete.FieldByIndex(field.Index).Interface().(type) {
		case fivetuple.Fields:
			return value.String()
		case bool:
			return fmt.Sprint(value)
		case []string:
			return strings.Join(value, ", ")
		case string:
			return value
		case uint32:
			return fmt.Sprint(value)
		case Duration:
			if value != 0 {
				return value.String()
			}
		}
	}
	return ""
}

func reference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, referenceStart, specMax>>10)
	rows, valid := keysOf(t, reflect.TypeFor[Spec](), ""), values()
	for _, k := range rows {
		option := ""
		if k.option != "" && k.kind != reflect.TypeFor[Sampling]() {
			option = "`--" + k.option + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", k.name, option, typeText(k.kind), defaultText(k.name), valid[k.name], k.comment)
		delete(valid, k.name)
	}
	if len(valid) > 0 {
		t.Errorf("values of unknown keys: %v", valid)
	}
	b.WriteString(referenceModules + moduleRows() + referenceStreams + refusals(t))
	fmt.Fprintf(&b, referencePoints, RulesMax, wire.PoliciesMax)
	for _, d := range point.All() {
		if strings.HasPrefix(d.Name, "test_") {
			continue // of point_test.go
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Name, d.Placement, d.Doc)
	}
	b.WriteString(referenceOptions)
	for _, d := range point.All() {
		for _, o := range d.Options {
			if !strings.HasPrefix(d.Name, "test_") {
				fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s |\n", d.Name, o.Name, o.Type, o.Default, o.Range(), o.Doc)
			}
		}
	}
	b.WriteString(referenceEnd)
	return b.String()
}

const referenceStart = `<!-- Generated by go test ./session -update from package session. -->

# Session files

A session file, in YAML or JSON, says what a session measures, between which hosts and when. ` + "`pillion session create FILE`" + `
starts it, with ` + "`--dry-run`" + ` it only validates the file and prints the plan; ` + "`pillion session change NAME FILE`" + ` replaces the
specification of an existing session. Options of the command line take precedence over the file. Unknown keys are
errors. A file has at most %d KiB. Durations are written as ` + "`500ms`, `1h30m` or `7d`" + `.

| key | option | type | default | valid | meaning |
|---|---|---|---|---|---|
`

const referenceModules = `
## Modules and streams

What a session measures, in which stream the rows are, which [encodings](encodings.md) carry it, and whose clocks have to agree, because
their difference is part of the figures:

| ` + "`modules`" + ` | measures | stream | encodings | clocks | requires |
|---|---|---|---|---|---|
`

const referenceStreams = `
With ` + "`altmark`" + ` the clocks of both ends have to agree to a quarter of a block for loss, too. Beside these, a session has rows in:

| setting | measures | stream | how | clocks |
|---|---|---|---|---|
| ` + "`trace`" + ` | path and round-trip time to each router | ` + "`hops`" + ` | probes of its own | none |
| ` + "`hops: ioam`" + ` | one-way delay of each hop | ` + "`hop_delays`" + ` | traces in IPv6 packets | source, routers and destination |
| ` + "`records`" + ` | each marked packet | ` + "`packets`" + ` | marks of all encodings | as its modules |
| ` + "`routers`" + ` | time in each stage of a router, its queues | ` + "`router`, `router_queues`, `router_breaks`, `router_account`" + ` | programs on the router | none |
| ` + "`points`" + ` | as the [point](#points) | the streams of the point | | |

Sources also report what they have sent, in the stream ` + "`sent_flows`" + `, so that [tail losses](../explanation/loss.md#tail-loss) are counted.

## What cannot be combined

| refused | key and reason |
|---|---|
`

const referencePoints = `
## Several sessions on one interface

Sessions can mark packets on the same interface of a source in different ways.

| limit | |
|---|---|
| ways to mark on an interface of a source | %[2]d |
| combinations of filter and destination address of a source | %[1]d, or any number if all sessions on the interface mark in the same way and have equal filters |
| different filters of a destination | %[1]d |

**The same packets.** A packet carries one mark. Where filters and addresses of sessions match the same packets:

- They must have the same encoding, stamp_every, sparse_marks, flow, hops_gap, block and authentication.
- Such packets carry the modules of all sessions that measure them, and are sampled as densely as the densest of these asks. So the rows of
  the others contain more packets than they ask for; the column LIMIT of ` + "`pillion session show`" + ` says so.
- Sampling by content (` + "`hash`" + `) selects the same packets at all observation points only if no other sampling adds packets. Where the
  sessions of a packet sample by different methods or seeds, it is always marked.

**With and without authentication.** Such sessions between the same two agents must not select the same packets, since a destination
requires a tag in every packet that a session with authentication selects.

**The same interface of a destination.** Sessions whose marks are read there must have the same block. Sessions with the same ` + "`flow`" + ` of
fewer than five fields must have the same filters there: the mark of such an aggregate names the fields, not the filter that chose the packet,
so that the destination could not know whose numbers they are. Otherwise use a different set of fields in one of them (` + "`src,dst`, `src,dst,proto`" + `),
flows by all five fields, or an interface of the destination for each (` + "`device`" + `).

**Counters.** While sessions on an interface mark in different ways, the counters ` + "`policy_marked`" + ` and ` + "`policy_not_sampled`" + ` of a source
count all packets that are marked as the session asks; all other counters are of the interface.

## Points

| point | runs on | measures |
|---|---|---|
`

const referenceOptions = `
Options of points; on the command line ` + "`--point NAME:OPTION=VALUE,OPTION=VALUE`" + `:

| point | option | type | default | valid | meaning |
|---|---|---|---|---|---|
`

const referenceEnd = `
## Examples

An application, in working hours, with a tenth of its packets:

` + "```sh ask" + `
cat > office.yaml <<'EOF'
name: office
sources: [a, site=north]      # an agent, and all agents with a label
destinations: [b]
both: true
modules: [delay, loss]
filters:
  - proto=tcp dport=443
  - dst=10.77.0.0/16 proto=udp
sampling: {every: 10, min_gap: 100us}
sampling_for:
  a: {hash: 100, hash_seed: office}
  b: {random: 100}
authentication: auto
interval: 5s
granularity: host-port
records: false
lease: 10s
start: 2026-01-05T00:00:00+01:00
cron: "0 9 * * 1-5"
time_zone: Europe/Berlin
duration: 8h
EOF
pillion session create office.yaml --dry-run
` + "```" + `

Where on the path the delay arises, for ten minutes every night: a time stamp in every packet, traces of IOAM, and a profile of the router ` + "`a`" + `:

` + "```sh ask" + `
cat > hops.yaml <<'EOF'
name: hops
sources: [a]
destinations: [b]
family: ipv6
encoding: udp-option,tcp-option,native
stamp_every: 1
hops: ioam
hops_gap: 100ms
trace: 5m
device: {a: b}                # on agent a, the interface b
flows: 65536
idle: 1m
routers: [a]
points:
  - {name: router, agents: [b], options: {}}
cron: "0 3 * * *"
duration: 10m
EOF
pillion session create hops.yaml --dry-run
` + "```" + `

[Edge to edge](../howto/edge-to-edge.md): the hosts of two networks, with one row for each pair of hosts, and the delay of both segments
if an agent with the label is on the path:

` + "```sh ask" + `
cat > sites.yaml <<'EOF'
name: sites
sources: [a]
destinations: [b]
encoding: native,udp
flow: src,dst
granularity: host
transit: {a: 10.1.0.0/16, b: 10.2.0.0/16}   # hosts behind each, which forwards their packets
waypoints: [role=core]
EOF
pillion session create sites.yaml --dry-run
` + "```" + `

For an hour a week, at the least cost: only packets with a time stamp are marked. For another one, loss by blocks of
[Alternate Marking](../explanation/loss.md#blocks-of-alternate-marking):

` + "```sh ask" + `
cat > cheap.yaml <<'EOF'
{name: cheap, sources: [a], destinations: [b], sparse_marks: true, cron: "0 1 * * 0", duration: 1h}
EOF
cat > blocks.yaml <<'EOF'
{name: blocks, sources: [a], destinations: [b], family: ipv6, encoding: altmark, block: 5s, cron: "0 2 * * 0", duration: 1h}
EOF
pillion session create cheap.yaml --dry-run
pillion session create blocks.yaml --dry-run
` + "```" + `
`
