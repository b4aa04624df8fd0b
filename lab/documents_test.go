package lab_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/free"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/lab"
)

var fence = regexp.MustCompile("(?ms)^```sh ?([a-z-]*)\n(.*?)^```$")

// block is a fenced block of commands. Its class, after the word sh, selects the test that
// runs them.
type block struct{ document, class, text string }

func blocks(t *testing.T) []block {
	t.Helper()
	var found []block
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../*/README.md", "../study/*/README.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range fence.FindAllStringSubmatch(string(text), -1) {
				found = append(found, block{strings.TrimPrefix(name, "../"), match[1], match[2]})
			}
		}
	}
	return found
}

// ofClass returns the text of all blocks of a class in a document.
func ofClass(t *testing.T, document, class string) string {
	t.Helper()
	var text string
	for _, b := range blocks(t) {
		if b.document == document && b.class == class {
			text += b.text
		}
	}
	if text == "" {
		t.Fatalf("%s has no block %q", document, class)
	}
	return text
}

// Every block of commands has a class that a test runs, or is of those that need other machines:
// of these, tests of the root and of cli check the syntax and that commands and options exist.
func TestDocumentedCommandsAreRun(t *testing.T) {
	run := map[string][]string{
		"README.md":                  {"make", "two-hosts", "ask"},
		"docs/tutorial/tutorial.md":  {"make" /* TestDocumentedTargets of the root */, "tutorial"}, // TestLongTutorial
		"docs/howto/analysis.md":     {""},                                                         // python
		"docs/howto/api.md":          {"ask"},
		"docs/howto/applications.md": {"application-build", "application", "application-ask"},
		"docs/howto/backup.md":       {"backup"}, // cli/server
		"docs/howto/benchmark.md":    {"benchmark"},
		"docs/howto/by-hand.md":      {"hand-destination", "hand-source"},
		"docs/howto/edge-to-edge.md": {"ask", "edge-lab"},
		"docs/howto/estimate.md":     {"estimate", "estimate-hops"},
		"docs/howto/experiment.md":   {"experiment"},
		"docs/howto/hop-by-hop.md":   {"ioam-router"},
		"docs/howto/install.md": {"try", "server", "host", "session", "remove", // TestLongPackages
			"container-load", "container-server", "container-token", "container-agent"}, // TestLongContainers
		"docs/howto/own-hosts.md":        {"systemd", "noc", "north", "south", "noc-ask"},
		"docs/howto/retention.md":        {"ask"},
		"docs/howto/router.md":           {"router"},
		"docs/howto/segments.md":         {"ask-waypoint"},
		"docs/howto/send-in-sessions.md": {"ask"},
		"docs/howto/send.md":             {"send"},
		"docs/howto/tokens.md":           {"ask"},
		"docs/howto/troubleshooting.md":  {"ask"},
		"docs/reference/session.md":      {"ask"},
	}
	elsewhere := map[string][]string{
		"docs/howto/by-hand.md":              {"elsewhere"}, // it writes records until it is interrupted
		"docs/howto/install.md":              {"elsewhere"}, // below /usr/local; TestLongInstall does it in a folder
		"docs/howto/kubernetes.md":           {"elsewhere"}, // it needs a cluster
		"docs/howto/sla.md":                  {"elsewhere"}, // its report is of a month of a customer
		"docs/explanation/security-users.md": {"elsewhere"}, // its hosts have labels of a customer
		"docs/reference/wire.md":             {"elsewhere"}, // it captures until it is interrupted
		"clib/README.md":                     {"elsewhere"}, // it installs below /usr/local
	}
	for _, b := range blocks(t) {
		if !slices.Contains(run[b.document], b.class) && !slices.Contains(elsewhere[b.document], b.class) {
			t.Errorf("%s: no test runs the block %q:\n%s", b.document, b.class, b.text)
		}
	}
}

// The files that the documented commands install exist.
func TestDocumentedUnits(t *testing.T) {
	for _, word := range strings.Fields(ofClass(t, "docs/howto/own-hosts.md", "systemd")) {
		if strings.HasPrefix(word, "dist/") {
			if _, err := os.Stat(filepath.Join("..", word)); err != nil {
				t.Error(err)
			}
		}
	}
}

// desk is a folder like a built clone, with a user's environment.
type desk struct {
	t           *testing.T
	folder      string
	environment []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	namespace.NeedRoot(t)
	d := &desk{t: t, folder: t.TempDir()}
	for _, folder := range []string{"bin", "lab"} {
		if err := os.Mkdir(filepath.Join(d.folder, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{agentPath, serverPath, cliPath} {
		if err := os.Symlink(program, filepath.Join(d.folder, "bin", filepath.Base(program))); err != nil {
			t.Fatal(err)
		}
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PILLION_") {
			d.environment = append(d.environment, variable)
		}
	}
	d.environment = append(d.environment, "HOME="+d.folder, "NO_COLOR=1", "XDG_CONFIG_HOME="+d.folder,
		"PATH="+filepath.Join(d.folder, "bin")+":"+os.Getenv("PATH"))
	return d
}

// shell returns a shell that runs a text.
func (d *desk) shell(text string) *exec.Cmd {
	command := exec.Command("bash", "-euo", "pipefail", "-c", text)
	command.Dir, command.Env = d.folder, d.environment
	return command
}

func (d *desk) run(text string) string {
	d.t.Helper()
	said, err := d.shell(text).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s\n%v\n%s", text, err, said)
	}
	return string(said)
}

// until starts commands in this test's or a host's network and waits for matching output;
// when the test ends, the commands are interrupted. bash executes the last command in its
// own process, so that the command gets the signal.
func (d *desk) until(start func(*exec.Cmd) error, text string, wanted *regexp.Regexp) *exec.Cmd {
	d.t.Helper()
	command := d.shell("exec " + strings.TrimSpace(text))
	said := &transcript{}
	command.Stdout, command.Stderr = said, said
	if err := start(command); err != nil {
		d.t.Fatal(err)
	}
	ended := sync.OnceFunc(func() {
		_ = command.Process.Signal(unix.SIGINT)
		if err := command.Wait(); err != nil {
			d.t.Errorf("%s: %v\n%s", text, err, said)
		}
	})
	d.t.Cleanup(ended)
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("%s\n%s", text, said)
		}
	})
	eventually(d.t, fmt.Sprintf("%q of %s", wanted, text), func() bool { return wanted.MatchString(said.String()) })
	return command
}

// transcript is output that is read while it is written.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

var (
	_         io.Writer = (*transcript)(nil)
	delayLine           = regexp.MustCompile(`(?m)^\S+  (?:a > b|r1 > r2) .* p50 [0-9.]+ (µs|ms) `)
	readyLine           = regexp.MustCompile(`(?m)^ready$`)
	attached            = regexp.MustCompile(`"ready"`)
)

// watched runs two documented commands, of which the first starts the lab of a file, and the second
// shows delays in it. The lab has its own name and port, which it returns.
func (d *desk) watched(document, class, file string) (name, port string) {
	t := d.t
	t.Helper()
	name, port = fmt.Sprintf("t%dx%d", os.Getpid(), beds.Add(1)), strconv.Itoa(free.Port(t))
	spec, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^name: .*`).ReplaceAllString(string(spec), "name: "+name)
	text = strings.Replace(text, "forward: 8470", "forward: "+port, 1)
	if err := os.WriteFile(filepath.Join(d.folder, "lab", file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	d.environment = append(d.environment, "PILLION_SERVER=localhost:"+port)
	t.Cleanup(func() {
		if names, err := lab.List(); err == nil && slices.Contains(names, name) {
			if err := lab.Down(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
	commands := strings.Split(strings.TrimSpace(ofClass(t, document, class)), "\n")
	if len(commands) != 2 {
		t.Fatalf("%s has %d commands, want two", document, len(commands))
	}
	d.run(commands[0])
	t.Run("watch", func(t *testing.T) {
		watching := *d
		watching.t = t
		watching.until((*exec.Cmd).Start, commands[1], delayLine)
	})
	return name, port
}

// TestTwoCommands: those of README.md show live delay, and the other documented commands
// for that lab work in it.
func TestTwoCommands(t *testing.T) {
	t.Parallel() // it mostly waits
	d := newDesk(t)
	name, port := d.watched("README.md", "two-hosts", "two-hosts.yaml")
	here := strings.NewReplacer("twohosts", name, "8470", port)
	for _, document := range []string{
		"docs/howto/retention.md", "docs/howto/tokens.md", "docs/howto/api.md", "docs/reference/session.md", "docs/howto/troubleshooting.md",
		"docs/howto/edge-to-edge.md", "docs/howto/send-in-sessions.md", "README.md", // which ends the lab
	} {
		for _, b := range blocks(t) {
			if b.document == document && b.class == "ask" {
				d.run(here.Replace(b.text))
			}
		}
	}
	expectGone(t, name)
	if _, err := os.Lstat("/run/pillion/forward/" + port + ".token"); err == nil {
		t.Error("the link to the token still exists")
	}
}

// TestJoinAsDocumented: a server and two hosts as in docs/howto/own-hosts.md, in a lab that has only the
// network.
func TestJoinAsDocumented(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, `
hosts: {noc: {}, north: {}, south: {}}
links: [{ends: [noc, north]}, {ends: [noc, south]}, {ends: [north, south]}]
`)
	d := newDesk(t)
	data := filepath.Join(d.folder, "server")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	d.environment = append(d.environment, "PILLION_DATA="+data)
	in := func(host string) func(*exec.Cmd) error {
		return func(command *exec.Cmd) error {
			command.Dir = data // join.token
			return b.Start(host, command)
		}
	}
	addresses := map[string]string{"noc": "", "north": "10.77.1.1", "south": "10.77.2.1"}
	for _, host := range []string{"noc", "north", "south"} {
		text := strings.TrimSpace(strings.NewReplacer("noc.example", addresses[host], "/var/lib/pillion-server", data).
			Replace(ofClass(t, "docs/howto/own-hosts.md", host)))
		if host != "noc" {
			text += " --data " + filepath.Join(d.folder, host)
		}
		d.until(in(host), text, readyLine)
	}
	command := d.shell(ofClass(t, "docs/howto/own-hosts.md", "noc-ask"))
	said := &transcript{}
	command.Stdout, command.Stderr = said, said
	if err := in("noc")(command); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil || !strings.Contains(said.String(), "north > south") {
		t.Errorf("%v\n%s", err, said)
	}
	d.reports(in("north"), in("noc"))
}

// reports builds the application of docs/howto/applications.md, runs it on one host, and queries its
// reports on another.
func (d *desk) reports(there, asked func(*exec.Cmd) error) {
	d.t.Helper()
	if said, err := exec.Command("cp", "-r", "../clib", d.folder).CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, said)
	}
	d.run(ofClass(d.t, "docs/howto/applications.md", "application-build"))
	command := d.shell("cd " + d.folder + "; " + ofClass(d.t, "docs/howto/applications.md", "application"))
	if err := there(command); err != nil {
		d.t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		d.t.Fatal(err)
	}
	said := ""
	d.t.Cleanup(func() { d.t.Log(said) })
	eventually(d.t, "what the application reports to be exported", func() bool {
		command := d.shell("rm -f trial.sq3; " + ofClass(d.t, "docs/howto/applications.md", "application-ask"))
		written := &transcript{}
		command.Stdout, command.Stderr = written, written
		if err := asked(command); err != nil {
			d.t.Fatal(err)
		}
		err := command.Wait()
		said = written.String()
		return err == nil && strings.Contains(said, "trial") && strings.Contains(said, "330 tuples")
	})

}

// TestProbesAsDocumented: source and destination without a server.
func TestProbesAsDocumented(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, pair)
	d := newDesk(t)
	for _, step := range []struct{ host, peer, class, documented string }{
		{"b", "a", "hand-destination", "2001:db8::1"}, {"a", "b", "hand-source", "2001:db8::2"},
	} {
		address := map[string]string{"a": "fd77:0:0:1::1", "b": "fd77:0:0:1::2"}[step.peer]
		text := strings.NewReplacer("eth0", step.peer, step.documented, address).Replace(ofClass(t, "docs/howto/by-hand.md", step.class))
		d.until(func(command *exec.Cmd) error { return b.Start(step.host, command) }, strings.TrimSpace(text)+" --json", attached)
	}
}
