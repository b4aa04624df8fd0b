package layout

import (
	"strings"
	"testing"
	"testing/fstest"
)

// goFile returns a documented Go file of the package, importing the given paths.
func goFile(pkg string, imports ...string) string {
	var b strings.Builder
	b.WriteString("// Package " + pkg + " is a fixture.\npackage " + pkg + "\n")
	for _, i := range imports {
		b.WriteString("import _ \"" + i + "\"\n")
	}
	return b.String()
}

func lines(n int) string { return strings.Repeat("//\n", n) }

// faulty trees: each breaks one rule once and must be reported so.
var faultyTrees = []struct {
	name string
	tree map[string]string
	want string // the fault, or empty for none
}{
	{"empty tree", nil, ""},
	{"all rooms in order", map[string]string{
		"wire/wire.go":              goFile("wire", "fmt", module+"/internal/clock"),
		"wire/wire_test.go":         goFile("wire", "github.com/google/gopacket"),
		"probe/source/source.go":    goFile("source", module+"/wire", module+"/probe/bpf", "github.com/cilium/ebpf"),
		"agent/agent.go":            goFile("agent", module+"/probe/source", module+"/bus"),
		"server/server.go":          goFile("server", module+"/archive/duckdb", module+"/api/client"),
		"bus/bus.go":                goFile("bus", "github.com/nats-io/nats.go"),
		"archive/duckdb/duckdb.go":  goFile("duckdb", "C", "github.com/duckdb/duckdb-go/v2"),
		"cmd/pillion-agent/main.go": goFile("main", module+"/cli/agent"),
		"python/build/a/b/c/d.py":   "",
		"ui/node_modules/a/b/c/d.ts": lines(
			5000),
		"wire/testdata/a/b/c/d.go": "not Go",
		"wire/test/codec/codec.go": goFile("codec", module+"/wire"),
		"probe/probe_test.go":      goFile("probe", module+"/wire/test/codec"),
	}, ""},
	{"unknown room", map[string]string{"utilities/a.txt": ""}, "utilities: not a room"},
	{"too deep", map[string]string{"ui/a/b/c/d/e.ts": ""}, "ui/a/b/c/d: deeper than 4 folders (depth)"},
	{"wire imports measure", map[string]string{"wire/a.go": goFile("wire", module+"/measure")}, "wire may not import measure"},
	{"wire imports others' package", map[string]string{"wire/a.go": goFile("wire", "golang.org/x/net/ipv6")}, "standard library only"},
	{"production imports what is for tests", map[string]string{"probe/a.go": goFile("probe", module+"/wire/test/codec")}, "only tests may"},
	{"production imports a package for tests", map[string]string{"server/a.go": goFile("server", module+"/bus/bustest")}, "only tests may"},
	{"measure imports wire", map[string]string{"measure/a.go": goFile("measure", module+"/wire")}, "measure may not import wire"},
	{"internal imports a room", map[string]string{"internal/a/a.go": goFile("a", module+"/wire")}, "internal may not import wire"},
	{"agent imports archive", map[string]string{"agent/a.go": goFile("agent", module+"/archive")}, "agent may not import archive"},
	{"server imports probe", map[string]string{"server/a.go": goFile("server", module+"/probe/router")}, "server may not import probe"},
	{"test breaks the law", map[string]string{"lab/a_test.go": goFile("lab", module+"/agent")}, "lab may not import agent"},
	{"cmd imports past cli", map[string]string{"cmd/pillion/main.go": goFile("main", module+"/lab")}, "cmd may not import lab"},
	{"docs import a room", map[string]string{"docs/a/a.go": goFile("a", module+"/wire")}, "docs may not import wire"},
	{"code in the root", map[string]string{"a.go": goFile("pillion")}, "the root holds no Go files"},
	{"core imports a wing", map[string]string{"server/a.go": goFile("server", module+"/oml")}, "server may not import oml"},
	{"core imports a room of a wing", map[string]string{"agent/a.go": goFile("agent", module+"/send/frame")}, "agent may not import send"},
	{"wing imports a wing", map[string]string{"send/a.go": goFile("send", module+"/oml")}, "send may not import oml"},
	{"wing imports study", map[string]string{"oml/a.go": goFile("oml", module+"/study")}, "oml may not import study"},
	{"wing imports cmd", map[string]string{"oml/a.go": goFile("oml", module+"/cmd/pillion")}, "oml may not import cmd"},
	{"study imports the others, wings the core, main programs all", map[string]string{
		"study/a.go": goFile("study", module+"/oml", module+"/send"), "send/a.go": goFile("send", module+"/cli/agent"),
		"cmd/pillion/main.go": goFile("main", module+"/cli/pillion", module+"/oml", module+"/study"), "server/a_test.go": goFile("server", module+"/oml"),
	}, ""},
	{"NATS outside bus", map[string]string{"agent/a.go": goFile("agent", "github.com/nats-io/nats.go")}, "only bus may"},
	{"NATS in a room with a like name", map[string]string{"oml/a.go": goFile("oml", "github.com/nats-io/nkeys")}, "only bus may"},
	{"cgo outside duckdb", map[string]string{"archive/a.go": goFile("archive", "C")}, "only archive/duckdb may"},
	{"DuckDB outside duckdb", map[string]string{"server/a.go": goFile("server", "github.com/duckdb/duckdb-go/v2")}, "only archive/duckdb may"},
	{"SQL outside archive", map[string]string{"server/a.go": goFile("server") + "var a = `\n\tSELECT 1`\n"}, "holds SQL"},
	{"SQL in archive and in a test", map[string]string{
		"archive/a.go": goFile("archive") + "var a = \"SELECT 1\"\n", "server/a_test.go": goFile("server") + "var a = \"SELECT 1\"\n",
	}, ""},
	{"fourth main", map[string]string{"lab/a/main.go": goFile("main"), "lab/a/b.go": "package main\n"}, "lab/a: package main"},
	{"fourth folder in cmd", map[string]string{"cmd/extra/a.go": goFile("extra")}, "cmd holds three mains"},
	{"no package comment", map[string]string{"wire/a.go": "package wire\n", "wire/b.go": "package wire\n"}, "wire: no package comment"},
	{"comment apart from the clause", map[string]string{"wire/a.go": "// Package wire.\n\npackage wire\n"}, "wire: no package comment"},
	{"forbidden file", map[string]string{"ui/src/helpers.ts": ""}, `"helpers" names no thing`},
	{"forbidden word in a file", map[string]string{"wire/packet_utils.c": ""}, `"utils" names no thing`},
	{"forbidden folder", map[string]string{"lab/common/a.txt": ""}, `"common" names no thing`},
	{"forbidden package", map[string]string{"lab/a/a.go": goFile("manager")}, `package "manager" names no thing`},
	{"harmless base64", map[string]string{"wire/base64.go": goFile("wire")}, ""},
	{"Go file at the limit", map[string]string{"wire/a.go": goFile("wire") + lines(598)}, ""},
	{"Go file too long", map[string]string{"wire/a.go": goFile("wire") + lines(599)}, "601 lines, the limit is 600"},
	{"generated Go file", map[string]string{"wire/a.go": "// Code generated by x. DO NOT EDIT.\n\n" + goFile("wire") + lines(5000)}, ""},
	{"test at the limit", map[string]string{"wire/a_test.go": goFile("wire") + lines(798)}, ""},
	{"test too long", map[string]string{"wire/a_test.go": goFile("wire") + lines(799)}, "801 lines, the limit is 800"},
	{"BPF C too long", map[string]string{"probe/source/source.c": lines(401)}, "401 lines, the limit is 400"},
	{"BPF header too long", map[string]string{"probe/bpf/flow.h": lines(401)}, "401 lines, the limit is 400"},
	{"generated C header", map[string]string{"probe/bpf/vmlinux.h": "/* Code generated by x. DO NOT EDIT. */\n" + lines(5000)}, ""},
	{"other C is free", map[string]string{"clib/oml.c": lines(500)}, ""},
	{"Python too long", map[string]string{"python/pillion/frame.py": lines(601)}, "601 lines, the limit is 600"},
	{"TypeScript too long", map[string]string{"ui/src/chart.tsx": lines(601)}, "601 lines, the limit is 600"},
	{"TypeScript test", map[string]string{"ui/src/chart.test.ts": lines(800)}, ""},
	{"function at the limit", map[string]string{"wire/a.go": goFile("wire") + "func a() {\n" + lines(78) + "}\n"}, ""},
	{"function too long", map[string]string{"wire/a.go": goFile("wire") + "func a() {\n" + lines(79) + "}\n"}, "wire/a.go:a: 81 lines"},
	{"method too long", map[string]string{"wire/a.go": goFile("wire") + "type t int\nfunc (t) m() {\n" + lines(79) + "}\n"}, "wire/a.go:m: 81 lines"},
}

func TestLayoutOfFixtures(t *testing.T) {
	for _, test := range faultyTrees {
		t.Run(test.name, func(t *testing.T) {
			faults := checkLayout(t, mapFS(test.tree), nil)
			if test.want == "" {
				if len(faults) != 0 {
					t.Errorf("got %v, want no fault", faults)
				}
				return
			}
			if len(faults) != 1 || !strings.Contains(faults[0].String(), test.want) {
				t.Errorf("got %v, want one fault with %q", faults, test.want)
			}
		})
	}
}

func TestLayoutExceptions(t *testing.T) {
	long := map[string]string{"wire/a.go": goFile("wire") + lines(599)}
	tests := []struct {
		name string
		tree map[string]string
		e    exception
		want string
	}{
		{"covers its fault", long, exception{"lines", "wire/a.go", "a table"}, ""},
		{"covers no other rule", long, exception{"function", "wire/a.go", "a table"}, "601 lines"},
		{"covers no other file", long, exception{"lines", "wire/b.go", "a table"}, "601 lines"},
		{"needs a reason", long, exception{"lines", "wire/a.go", ""}, "has no reason"},
		{"is needed", nil, exception{"lines", "wire/a.go", "a table"}, "is not needed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, f := range checkLayout(t, mapFS(test.tree), []exception{test.e}) {
				got = append(got, f.String())
			}
			all := strings.Join(got, "\n")
			if (test.want == "") != (all == "") || !strings.Contains(all, test.want) {
				t.Errorf("got %q, want %q", all, test.want)
			}
		})
	}
}

func mapFS(files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}
