package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pillion.dev/measure/module"
	"pillion.dev/wire"
)

// refused are combinations that no session can have; docs/reference/session.md lists them with the problem that
// validation finds.
var refused = []struct{ text, spec string }{
	{"`altmark` and sampling", "encoding: altmark\nsampling: {every: 10}"},
	{"`altmark` and `transit`", "encoding: altmark\ntransit: {b: 10.1.0.0/16}"},
	{"`altmark` and a block of a fraction of a millisecond", "encoding: altmark\nblock: 100.5ms"},
	{"a standard encoding and `sparse_marks`", "encoding: altmark\nsparse_marks: true"},
	{"a standard encoding and a `flow` of fewer fields", "encoding: ioam-e2e\nflow: src,dst"},
	{"standard encodings and `waypoints`", "encoding: pdm,ioam-e2e\nwaypoints: [r]"},
	{"UDP or TCP options only, and `waypoints`", "encoding: udp-option\nwaypoints: [r]"},
	{"`pdm` only, and the module delay", "encoding: pdm\nmodules: [delay, loss]\nfamily: ipv6"},
	{"round-trip without `pdm`", "modules: [loss, round-trip]\nboth: true\nencoding: native"},
	{"round-trip without `both`", "modules: [loss, round-trip]\nencoding: pdm,native"},
	{"segments without `waypoints`", "modules: [delay, loss, segments]\nencoding: native"},
	{"an encoding of IPv6 and the family ipv4", "encoding: ioam-e2e\nfamily: ipv4"},
	{"`sparse_marks` and sampling", "sparse_marks: true\nsampling: {random: 10}"},
	{"`sparse_marks` and one module", "sparse_marks: true\nmodules: [loss]"},
	{"`sparse_marks` and a `flow` of fewer fields", "sparse_marks: true\nflow: src,dst"},
	{"`sparse_marks` and `transit`", "sparse_marks: true\ntransit: {b: 10.1.0.0/16}"},
	{"`hops: ioam` and `sparse_marks`", "hops: ioam\nsparse_marks: true"},
	{"`hops: ioam` and a `flow` of fewer fields", "hops: ioam\nflow: src,dst"},
	{"`hops: ioam` without the module delay", "hops: ioam\nmodules: [loss]"},
	{"`hops: ioam` without IPv6", "hops: ioam\nfamily: ipv4"},
	{"two ways of sampling", "sampling: {every: 10, hash: 10}"},
}

// refusals are the rows of the table of what a session refuses.
func refusals(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, row := range refused {
		spec, err := ParseSpec([]byte("name: try\nsources: [a]\ndestinations: [b]\n" + row.spec + "\n"))
		if err != nil {
			t.Fatalf("%s: %v", row.text, err)
		}
		problems := spec.Validate()
		if len(problems) == 0 {
			t.Errorf("%s: accepted", row.text)
			continue
		}
		fmt.Fprintf(&b, "| %s | `%s`: %s |\n", row.text, problems[0].Field, problems[0].Message)
	}
	return b.String()
}

// moduleRows are the rows of the table of modules.
func moduleRows() string {
	var b strings.Builder
	for _, d := range module.All() {
		clocks := d.Clocks
		if clocks == "" {
			clocks = "none"
		}
		var also []string
		for _, required := range d.Requires {
			also = append(also, "`"+required+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s | %s |\n", d.Name, d.Doc, d.Stream(), encodingsOf(d), clocks, strings.Join(also, ", "))
	}
	return b.String()
}

// encodingsOf names the encodings whose marks serve a module; those of Alternate Marking do once per block.
func encodingsOf(d *module.Descriptor) string {
	var able, blocks wire.EncodingList
	for _, e := range wire.Encodings() {
		carries := strings.Split(e.Carries().String(), ",")
		switch {
		case d == module.Segments || !d.Built():
			if e.Carries()&wire.CarriesModules != 0 {
				able = append(able, e)
			}
		case slices.Contains(carries, d.Carrier):
			able = append(able, e)
		case (d == module.Delay || d == module.Loss) && e.Carries()&wire.CarriesBlock != 0:
			blocks = append(blocks, e)
		}
	}
	text := "`" + strings.ReplaceAll(able.String(), ",", "`, `") + "`"
	if len(able)+len(blocks) == len(wire.Encodings()) {
		text = "all"
	}
	if len(blocks) > 0 {
		text += fmt.Sprintf("; `%v` per block", blocks)
	}
	return text
}
