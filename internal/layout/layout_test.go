package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "pillion.dev"

// room says what one part of the tree may import of the others. Every room may import
// internal, and tests may import wings.
type room struct {
	imports string
	// standardOnly keeps other people's packages out, tests excepted.
	standardOnly bool
	// wing is the wing that the room belongs to; empty: the core. The core imports no wing, and a
	// wing imports the core and itself; study imports the other two as well. Only the main programs
	// link the core and the wings.
	wing string
}

// rooms are folders; a folder inside of another room can be a room of its own.
var rooms = map[string]room{
	"wire":     {standardOnly: true},
	"measure":  {},
	"probe":    {imports: "wire measure"},
	"trace":    {imports: "measure"},
	"session":  {imports: "wire measure"}, // measure/point: what a session can ask for
	"bus":      {imports: "measure"},
	"archive":  {imports: "measure"},
	"api":      {imports: "session"},
	"agent":    {imports: "wire probe measure trace session bus"},
	"server":   {imports: "wire measure trace session bus archive api"},
	"ui":       {imports: "api"},
	"lab":      {imports: "wire"}, // test/codec, of which a test forges marks
	"cli":      {imports: "wire probe measure trace session bus archive api agent server ui lab"},
	"cmd":      {imports: "cli send oml study"},
	"python":   {},
	"dist":     {},
	"docs":     {},
	"internal": {},

	"send": {wing: "send"},

	"oml":  {wing: "oml"},
	"clib": {wing: "oml"},

	"study": {wing: "study"},
}

// roomOf returns the name of the room of a folder: the innermost.
func roomOf(folder string) string {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, known := rooms[folder]; known {
			return folder
		}
	}
	return ""
}

// mayImport reports whether a room may import another one.
func mayImport(from, to string, inTest bool) bool {
	a, b := rooms[from], rooms[to]
	switch {
	case to == from, to == "internal", slices.Contains(strings.Fields(a.imports), to):
		return true
	case a.wing == "":
		return b.wing != "" && (inTest || from == "cmd")
	}
	return a.wing == b.wing || a.wing == "study" || b.wing == "" && to != "cmd"
}

var mains = []string{"cmd/pillion-agent", "cmd/pillion-server", "cmd/pillion"}

// confined lists external packages that only some places may import. A package
// that ends in a slash stands for all below it.
var confined = []struct{ imported, to string }{
	{"github.com/nats-io/", "bus"},
	{"github.com/duckdb/", "archive/duckdb"},
	{"github.com/marcboeker/go-duckdb", "archive/duckdb"},
	{"C", "archive/duckdb"},                        // cgo
	{"github.com/gdamore/", "cli/terminal"},        // full-screen views
	{"modernc.org/", "oml/sqlite study/bench/oml"}, // SQLite: what users of OML export, what OML's server writes
}

// statement begins a string that is SQL, which only sqlRooms hold: a question to the
// archive has a method of archive.Archive. What a user types is no string of ours.
var (
	statement = regexp.MustCompile("^[\"`]\\s*(SELECT|CREATE|INSERT|DELETE|UPDATE|ALTER|WITH) ")
	sqlRooms  = []string{"archive", "lab", "oml", "study"}
)

// unwatched folders hold what tools make, what tests read, or what has its form from other projects. A name with a
// slash is a path.
var unwatched = []string{".git", ".ci", "bin", "testdata", "node_modules", "ui/dist", "dist/helm", "dist/grafana", "results", "build", "pillion.egg-info", "__pycache__"}

func isUnwatched(folder string) bool {
	return slices.Contains(unwatched, path.Base(folder)) || slices.Contains(unwatched, folder)
}

// forTests are folders of what only tests import.
var forTests = regexp.MustCompile(`(^|/)[a-z]*test/`)

var forbiddenNames = []string{"utils", "util", "common", "helpers", "helper", "manager", "base"}

const (
	depthLimit    = 4
	functionLimit = 80
)

var testFile = regexp.MustCompile(`_test\.go$|\.(test|spec)\.tsx?$|(^|/)test_[^/]*\.py$`)

// lineLimits: the first pattern that fits a file's path counts.
var lineLimits = []struct {
	file  *regexp.Regexp
	limit int
}{
	{testFile, 800},
	{regexp.MustCompile(`\.(go|ts|tsx)$`), 600},
	{regexp.MustCompile(`^probe/.*\.[ch]$`), 400},
	{regexp.MustCompile(`\.py$`), 600},
}

// exceptions to a rule, each with its reason. One that is no longer needed is
// a fault too, so the table stays true.
var exceptions = []exception{
	{"main", "study/bench/overhead", "the load of experiments of `make bench` and `make paper-s1`, never shipped: the product is three binaries"},
	{"main", "study/bench/first-delay", "the load of the experiment of `make first-delay`, never shipped: the product is three binaries"},
	{"main", "study/bench/alarms", "the load of the experiment of `make bench-alarms`, never shipped: the product is three binaries"},
	{"main", "study/bench/ingest", "the load of experiments of `make bench-service`, never shipped: the product is three binaries"},
	{"main", "study/bench/campaign", "a test with faults for `make campaign`, never shipped: the product is three binaries"},
	{"main", "study/bench/ledger", "a test with faults for `make ledger`, never shipped: the product is three binaries"},
	{"main", "study/bench/crowd", "a simulation run by hand, by the page's tests and by `make bench-fleet`, never shipped: the product is three binaries"},
	{"main", "ui/pack", "a step of the page's build, run by go generate, never shipped: the product is three binaries"},
	{"main", "internal/notice/collect", "a step of the build, run by go generate, never shipped: the product is three binaries"},
	{"main", "internal/sbom", "a step of `make release`, never shipped: the product is three binaries"},
	{"main", "study/bench/oml", "the load of experiments of `make bench-oml`, never shipped: the product is three binaries"},
	{"main", "study/bench/router", "an experiment for `make bench-router`, never shipped: the product is three binaries"},
	{"main", "study/bench/send", "an experiment for `make bench-send`, never shipped: the product is three binaries"},
	{"main", "study/bench/capacity", "an experiment for `make bench-capacity`, never shipped: the product is three binaries"},
	{"main", "study/bench/instrumented", "the load of experiments of `make paper-s4`, `make bench-relay` and `make bench-oml`, never shipped: the product is three binaries"},
	{"main", "study/bench/metrics", "a measurement for `make bench-metrics`, never shipped: the product is three binaries"},
	{"main", "study/bench/fill", "the load of an experiment of `make bench-service`, never shipped: the product is three binaries"},
	{"main", "study/bench/probes", "the load of the experiment of `make bench-probes`, never shipped: the product is three binaries"},
	{"main", "study/bench/query", "the load of an experiment of `make bench-service`, never shipped: the product is three binaries"},
	{"main", "study/bench/clickhouse", "the load of experiments of `make bench-clickhouse`, never shipped: the product is three binaries"},
	{"main", "study/bench/statistics", "a simulation for `make bench-statistics`, never shipped: the product is three binaries"},
	{"import", "study/bench/probes/destination.go", "frames of an experiment, never shipped"},
	{"import", "lab/trace_test.go", "traces of IOAM, which no command prints: only the package hands them over"},
	{"import", "study/bench/probes/source.go", "packets of an experiment, never shipped"},
	{"import", "study/bench/probes/return.go", "packets of an experiment, never shipped"},
}

type exception struct{ rule, path, reason string }

// fault is one place where the tree breaks one rule.
type fault struct{ rule, path, detail string }

func (f fault) String() string { return fmt.Sprintf("%s: %s (%s)", f.path, f.detail, f.rule) }

func TestLayout(t *testing.T) {
	for _, f := range checkLayout(t, os.DirFS("."), exceptions) {
		t.Error(f)
	}
}

// checkLayout returns every fault of the tree that no exception covers.
func checkLayout(t *testing.T, tree fs.FS, allowed []exception) []fault {
	t.Helper()
	c := checker{tree: tree, packages: map[string]bool{}}
	if err := fs.WalkDir(tree, ".", c.visit); err != nil {
		t.Fatalf("walk tree: %v", err)
	}
	for folder, documented := range c.packages {
		if !documented {
			c.report("comment", folder, "no package comment")
		}
	}
	used := map[exception]bool{}
	faults := slices.DeleteFunc(c.faults, func(f fault) bool {
		for _, e := range allowed {
			if e.rule == f.rule && e.path == f.path && e.reason != "" {
				used[e] = true
				return true
			}
		}
		return false
	})
	for _, e := range allowed {
		if !used[e] {
			faults = append(faults, fault{"exception", e.path, "the exception to rule " + e.rule + " is not needed or has no reason"})
		}
	}
	slices.SortFunc(faults, func(a, b fault) int { return strings.Compare(a.String(), b.String()) })
	return faults
}

type checker struct {
	tree   fs.FS
	faults []fault
	// packages: folder of Go files to whether one of them has the comment.
	packages map[string]bool
}

func (c *checker) report(rule, path, format string, a ...any) {
	c.faults = append(c.faults, fault{rule, path, fmt.Sprintf(format, a...)})
}

func (c *checker) visit(name string, entry fs.DirEntry, err error) error {
	if err != nil || name == "." {
		return err
	}
	if !entry.IsDir() {
		return c.checkFile(name)
	}
	if isUnwatched(name) {
		return fs.SkipDir
	}
	c.checkName(name)
	if _, known := rooms[name]; !known && !strings.Contains(name, "/") {
		c.report("room", name, "not a room of the architecture")
		return fs.SkipDir
	}
	if strings.Count(name, "/")+1 > depthLimit {
		c.report("depth", name, "deeper than %d folders", depthLimit)
	}
	return nil
}

// checkName refuses names that say nothing about what is inside.
func (c *checker) checkName(name string) {
	stem, _, _ := strings.Cut(path.Base(name), ".")
	words := strings.FieldsFunc(strings.ToLower(stem), func(r rune) bool { return r == '_' || r == '-' })
	for _, word := range words {
		if slices.Contains(forbiddenNames, word) {
			c.report("name", name, "%q names no thing", word)
		}
	}
}

var generatedLine = regexp.MustCompile(`(?m)^\W*(Code generated .*DO NOT EDIT|@generated by )`)

func (c *checker) checkFile(name string) error {
	c.checkName(name)
	limit := lineLimit(name)
	if limit == 0 {
		return nil
	}
	text, err := fs.ReadFile(c.tree, name)
	if err != nil {
		return err
	}
	generated := generatedLine.Match(text[:min(len(text), 4096)])
	if lines := strings.Count(string(text), "\n"); lines > limit && !generated {
		c.report("lines", name, "%d lines, the limit is %d", lines, limit)
	}
	if path.Ext(name) == ".go" {
		return c.checkGo(name, text, generated)
	}
	return nil
}

func lineLimit(name string) int {
	for _, l := range lineLimits {
		if l.file.MatchString(name) {
			return l.limit
		}
	}
	return 0
}

func (c *checker) checkGo(name string, text []byte, generated bool) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	folder := path.Dir(name)
	if folder == "." {
		c.report("room", name, "the root holds no Go files")
	}
	c.packages[folder] = c.packages[folder] || file.Doc != nil
	c.checkPackage(folder, file.Name.Name)
	for _, spec := range file.Imports {
		c.checkImport(name, strings.Trim(spec.Path.Value, "`\""))
	}
	if generated {
		return nil
	}
	room, _, _ := strings.Cut(name, "/")
	ast.Inspect(file, func(n ast.Node) bool {
		text, ok := n.(*ast.BasicLit)
		if ok && statement.MatchString(text.Value) && !slices.Contains(sqlRooms, room) && !testFile.MatchString(name) {
			c.report("sql", name, "holds SQL %.40s; only archive does", text.Value)
		}
		return true
	})
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := files.Position(function.End()).Line - files.Position(function.Type.Pos()).Line + 1
		if lines > functionLimit {
			c.report("function", name+":"+function.Name.Name, "%d lines, the limit is %d", lines, functionLimit)
		}
	}
	return nil
}

func (c *checker) checkPackage(folder, pkg string) {
	if slices.Contains(forbiddenNames, strings.TrimSuffix(pkg, "_test")) {
		c.report("name", folder, "package %q names no thing", pkg)
	}
	isMain := slices.Contains(mains, folder)
	fault := fault{"main", folder, fmt.Sprintf("package main; only %s are", strings.Join(mains, ", "))}
	if strings.TrimSuffix(pkg, "_test") == "main" && !isMain && !slices.Contains(c.faults, fault) {
		c.faults = append(c.faults, fault)
	}
	if strings.HasPrefix(folder, "cmd/") && !isMain {
		c.report("room", folder, "cmd holds three mains: %s", strings.Join(mains, ", "))
	}
}

func (c *checker) checkImport(name, imported string) {
	from := roomOf(path.Dir(name))
	for _, rule := range confined {
		fits := imported == rule.imported ||
			strings.HasPrefix(imported, strings.TrimSuffix(rule.imported, "/")+"/")
		may := func(place string) bool { return strings.HasPrefix(name, place+"/") }
		if fits && !slices.ContainsFunc(strings.Fields(rule.to), may) {
			c.report("import", name, "imports %s; only %s may", imported, rule.to)
		}
	}
	ours, isOurs := strings.CutPrefix(imported, module+"/")
	if !isOurs {
		host, _, _ := strings.Cut(imported, "/")
		if rooms[from].standardOnly && strings.Contains(host, ".") && !strings.HasSuffix(name, "_test.go") {
			c.report("import", name, "imports %s; %s has the standard library only", imported, from)
		}
		return
	}
	if from == "" {
		from = "the root"
	}
	to := roomOf(ours)
	inTest := func(path string) bool { return forTests.MatchString(path) }
	isTest := inTest(name) || strings.HasSuffix(name, "_test.go")
	if inTest(ours+"/") && !isTest {
		c.report("import", name, "imports %s; only tests may", imported)
	}
	if mayImport(from, to, isTest) {
		return
	}
	c.report("import", name, "%s may not import %s", from, to)
}
