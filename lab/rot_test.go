package lab_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

type damage struct {
	name  string
	apply func(path string) error
}

// damages are what a disk, or a hand that slips, does to a file.
var damages = []damage{
	{"empty", changed(func([]byte) []byte { return nil })},
	{"halved", changed(func(text []byte) []byte { return text[:len(text)/2] })},
	{"one bit", changed(func(text []byte) []byte {
		if len(text) > 0 {
			text[len(text)/2] ^= 1
		}
		return text
	})},
	{"zeros", changed(func(text []byte) []byte { return make([]byte, len(text)) })},
	{"deleted", os.Remove},
	{"unreadable", func(path string) error { return os.Chmod(path, 0) }},
}

func changed(change func([]byte) []byte) func(string) error {
	return func(path string) error {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(text), 0o600)
		}
		return err
	}
}

// ruins are the data directories of a server and of an agent that were killed: the archive has rows, its write-ahead
// log too, and the agent's spools have batches that the server has not got.
type ruins struct {
	t      testing.TB
	ns     string
	folder string // with server and agent, and what the copies need
	killed time.Time
	files  map[string][]string // by program, relative to its directory

	// rows and state are those of a server that is started again without damage, all are its rows when those in
	// the spools have arrived.
	rows, all int64
	state     string
}

// nobody may not read what has no permissions.
const nobody = 65534

const rotOML = "protocol: 4\ndomain: rot\nstart-time: 1700000000\nsender-id: s%d\napp-name: a\nschema: 1 t x:int32\ncontent: text\n\n0.1\t1\t1\t5\n"

// Listen addresses of the programs in the namespace.
const rotHTTP, rotBus, rotServerOML, rotAgentOML = "127.0.0.1:8470", "127.0.0.1:8471", "127.0.0.1:3003", "127.0.0.1:3004"

func newRuins(t testing.TB) *ruins {
	t.Helper()
	r := &ruins{t: t, ns: namespace.New(t), folder: t.TempDir(), killed: time.Now().Add(time.Hour), files: map[string][]string{}}
	if err := os.Chmod(filepath.Dir(r.folder), 0o711); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(serverPath)
	if err == nil { // nobody may not reach the original
		err = os.WriteFile(filepath.Join(r.folder, "pillion-server"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := r.server("server")
	if !s.ready() {
		t.Fatal(s.said())
	}
	r.use(s)
	r.list()
	r.documented()
	r.control()
	return r
}

// use has two agents join and users change what there is, then kills the server and, later, the first agent.
func (r *ruins) use(s *ruinProcess) {
	r.t.Helper()
	t := r.t
	r.put("token", "admin.token")
	r.put("join", "join.token")
	r.put("ca", "ca.crt")
	first, second := r.agent("agent", "h1"), r.agent("other", "h2")
	eventually(t, "agents", func() bool { return strings.Count(r.pillion("agents", "-o", "json"), `"connected"`) >= 2 })
	r.pillion("session", "create", "--name", "s1", "--from", "h1", "--to", "h2")
	r.pillion("session", "create", "--name", "s2", "--from", "h1", "--to", "h2", "--every", "10")
	r.pillion("alarms", "silence", "source=h1", "--for", "2h")
	r.pillion("token", "create", "unused", "--role", "viewer")
	r.pillion("token", "revoke", "unused")
	r.pillion("alarms", "silence", "source=h2", "--for", "2h")
	r.report(rotServerOML, 1)
	r.report(rotAgentOML, 2)
	eventually(t, "rows", func() bool {
		n, err := r.count("SELECT (SELECT count(*) FROM host WHERE agent = 'h1') * (SELECT count(*) FROM oml_rot_t) AS n")
		return err == nil && n >= 4
	})
	s.stop() // the rows so far go into the archive's file, the later ones into its log
	if s = r.server("server"); !s.ready() {
		t.Fatal(s.said())
	}
	before, err := r.oldRows()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "more rows", func() bool { n, err := r.oldRows(); return err == nil && n > before+4 })
	r.pillion("agents", "revoke", "h2")
	for _, name := range []string{"alarms.json", "oml.json", "agents.json.previous", "sessions.json.previous", "revocations.json"} {
		eventually(t, name, func() bool { _, err := os.Stat(filepath.Join(r.folder, "server", name)); return err == nil })
	}
	second.kill()
	s.kill()
	own, applications := r.spooled("spool"), r.spooled("spool-applications")
	r.report(rotAgentOML, 3)
	eventually(t, "batches in the spools", func() bool {
		return r.spooled("spool") > own+8<<10 && r.spooled("spool-applications") > applications
	})
	first.kill()
	r.killed = time.Now()
}

// list lists the files, whatever they are.
func (r *ruins) list() {
	r.t.Helper()
	for _, program := range []string{"server", "agent"} {
		root := filepath.Join(r.folder, program)
		if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				path, err = filepath.Rel(root, path)
				r.files[program] = append(r.files[program], path)
			}
			return err
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// control starts both without damage.
func (r *ruins) control() {
	r.t.Helper()
	t, err := r.t, error(nil)
	whole := r.server(r.copied("server"))
	if !whole.ready() {
		r.t.Fatal(whole.said())
	}
	if r.rows, err = r.oldRows(); err != nil || r.rows == 0 {
		r.t.Fatal(r.rows, err)
	}
	r.state = r.states()
	again := r.agent(r.copied("agent"), "h1")
	eventually(t, "the rows of the spools", func() bool {
		sent, held, _, err := r.account()
		return err == nil && sent > 0 && held == 0
	})
	if r.all, err = r.oldRows(); err != nil || r.all <= r.rows {
		r.t.Fatal(r.rows, r.all, err)
	}
	again.kill()
	whole.kill()
}

// documented fails for files that docs/howto/recover.md does not name.
func (r *ruins) documented() {
	r.t.Helper()
	text, err := os.ReadFile("../docs/howto/recover.md")
	if err != nil {
		r.t.Fatal(err)
	}
	written := regexp.MustCompile(`\.[0-9]+$`) // a file that was to replace another
	for program, files := range r.files {
		for _, file := range files {
			name := strings.TrimSuffix(written.ReplaceAllString(filepath.Base(file), ""), ".previous")
			if filepath.Ext(name) == ".spool" {
				name = "*.spool"
			}
			if !strings.Contains(string(text), "`"+name+"`") {
				r.t.Errorf("docs/howto/recover.md does not say what the loss of %s of the %s means", file, program)
			}
		}
	}
}

// in is the same for a test of its own.
func (r ruins) in(t testing.TB) *ruins {
	r.t = t
	return &r
}

// put copies a file of the server's directory beside it.
func (r *ruins) put(name, from string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.folder, "server", from))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.folder, name), text, 0o644)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// copied copies a directory for one cell, and returns its name.
func (r *ruins) copied(program string) string {
	r.t.Helper()
	to, err := os.MkdirTemp(r.folder, program+"-")
	if err == nil {
		err = os.Chmod(to, 0o700)
	}
	if err == nil {
		var said []byte
		if said, err = exec.Command("cp", "-aT", filepath.Join(r.folder, program), to).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { os.RemoveAll(to) })
	return filepath.Base(to)
}

// spooled is the size of the files of a spool of the agent, which may run.
func (r *ruins) spooled(name string) (size int64) {
	files, _ := filepath.Glob(filepath.Join(r.folder, "agent", name, "*.spool")) // the pattern is valid
	for _, file := range files {
		if info, err := os.Stat(file); err == nil { // or it was delivered meanwhile
			size += info.Size()
		}
	}
	return size
}

// ruinProcess is a program with its output.
type ruinProcess struct {
	t       testing.TB
	command *exec.Cmd
	output  string // file
	ended   chan struct{}
}

func (r *ruins) start(path string, user uint32, args ...string) *ruinProcess {
	r.t.Helper()
	output, err := os.CreateTemp(r.folder, "output-")
	if err != nil {
		r.t.Fatal(err)
	}
	defer output.Close()
	p := &ruinProcess{t: r.t, command: exec.Command(path, args...), output: output.Name(), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = output, output
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if user != 0 {
		p.command.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	if err := netns.Do(r.ns, p.command.Start); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // what it said shows why
		close(p.ended)
	}()
	r.t.Cleanup(p.kill)
	return p
}

func (r *ruins) server(folder string) *ruinProcess {
	r.t.Helper()
	data := filepath.Join(r.folder, folder)
	if err := errors.Join(os.MkdirAll(data, 0o700), exec.Command("chown", "-R", strconv.Itoa(nobody), data).Run()); err != nil {
		r.t.Fatal(err)
	}
	return r.start(filepath.Join(r.folder, "pillion-server"), nobody, "run", "--data", data, "--http", rotHTTP, "--nats-listen", rotBus)
}

func (r *ruins) agent(folder, name string) *ruinProcess {
	r.t.Helper()
	oml := map[string]string{"h1": rotAgentOML, "h2": "off"}[name]
	return r.start(agentPath, 0, "run", "--data", filepath.Join(r.folder, folder), "--server", rotHTTP, "--name", name,
		"--token-file", filepath.Join(r.folder, "join"), "--interval", "1s", "--oml", oml, "--path-validation", "off")
}

// kill ends the program and its children as a crash does.
func (p *ruinProcess) kill() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // or it has ended
	<-p.ended
}

// stop ends the program in order.
func (p *ruinProcess) stop() {
	_ = syscall.Kill(p.command.Process.Pid, syscall.SIGTERM) // or it has ended
	<-p.ended
}

func (p *ruinProcess) said() string {
	text, err := os.ReadFile(p.output)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// ready waits until the program is ready, and reports false if it ends before.
func (p *ruinProcess) ready() (ready bool) {
	p.t.Helper()
	eventually(p.t, "the program to be ready or to end", func() bool {
		ended := false
		select {
		case <-p.ended:
			ended = true
		default:
		}
		ready = slices.Contains(strings.Split(p.said(), "\n"), "ready")
		return ready || ended
	})
	return ready
}

// refusal is the line, besides the lines of the log, with which a program ended.
var refusal = regexp.MustCompile(`(?m)^pillion-(?:server|agent): .*$`)

// gives reports whether a program that has ended said in one line which file it was, what is lost and what to do.
func (p *ruinProcess) gives(file string) error {
	if strings.HasSuffix(file, "identity.json") && strings.Contains(p.said(), "an agent with that name exists; revoke and delete it first") {
		return nil // whoever deletes it lets the host join again
	}
	lines := refusal.FindAllString(p.said(), -1)
	if len(lines) != 1 {
		return fmt.Errorf("want one line: %s", p.said())
	}
	for _, want := range []string{regexp.QuoteMeta(filepath.Base(file)), "lost", `restore|recover|move|delete`} {
		if !regexp.MustCompile(want).MatchString(lines[0]) {
			return fmt.Errorf("want %q: %s", want, lines[0])
		}
	}
	return nil
}

func (r *ruins) tryPillion(args ...string) (string, error) {
	var out, said bytes.Buffer
	command := exec.Command(cliPath, append([]string{"--server", rotHTTP, "--token-file", filepath.Join(r.folder, "token"), "--ca", filepath.Join(r.folder, "ca")}, args...)...)
	command.Stdout, command.Stderr = &out, &said
	if err := netns.Do(r.ns, command.Start); err != nil {
		return "", err
	}
	if err := command.Wait(); err != nil {
		return out.String(), fmt.Errorf("%v: %w: %s", args, err, said.String())
	}
	return out.String(), nil
}

func (r *ruins) pillion(args ...string) string {
	r.t.Helper()
	out, err := r.tryPillion(args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *ruins) count(sql string) (n int64, err error) {
	text, err := r.tryPillion("query", "-o", "json", sql)
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`"n": ?"?(\d+)`).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%s: %s", sql, text)
	}
	return strconv.ParseInt(found[1], 10, 64)
}

// oldRows counts the rows of the agent from before it was killed. A stream that does not exist has none.
func (r *ruins) oldRows() (rows int64, err error) {
	for _, stream := range []string{"host", "agent", "clock", "oml_rot_t"} {
		n, err := r.count(fmt.Sprintf("SELECT count(*) AS n FROM %s WHERE agent = 'h1' AND time < make_timestamp_ns(%d)", stream, r.killed.UnixNano()))
		if err != nil && !strings.Contains(err.Error(), "does not exist") {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}

var stateName = regexp.MustCompile(`"(?:name|revoked|comment)": ?"?[^,}"]*|source=\w+`)

// states are the names of what users have made.
func (r *ruins) states() string {
	all := ""
	for _, args := range [][]string{{"agents"}, {"session", "list"}, {"token", "list"}, {"alarms", "silences"}} {
		out, err := r.tryPillion(append(args, "-o", "json")...)
		all += fmt.Sprint(stateName.FindAllString(out, -1), err, "\n")
	}
	return all
}

// report sends a row to a collector.
func (r *ruins) report(address string, sender int) {
	r.t.Helper()
	if err := netns.Do(r.ns, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			r.t.Cleanup(func() { conn.Close() }) // whose end it is, an agent cannot see any more once it is closed
			_, err = fmt.Fprintf(conn, rotOML, sender)
		}
		return err
	}); err != nil {
		r.t.Fatal(err)
	}
}

// ruined starts a program with a copy of its directory in which a file is damaged, or, without a file, on a full disk.
func (r *ruins) ruined(program, file string, apply func(string) error) (p *ruinProcess, folder string) {
	r.t.Helper()
	if file == "" {
		return r.full(program)
	}
	folder = r.copied(program)
	if err := apply(filepath.Join(r.folder, folder, file)); err != nil {
		r.t.Fatal(err)
	}
	return r.program(program, folder), folder
}

// program starts the server, or the agent that was killed.
func (r *ruins) program(program, folder string) *ruinProcess {
	r.t.Helper()
	if program == "agent" {
		return r.agent(folder, "h1")
	}
	return r.server(folder)
}

// damaged returns the messages of the events of damage.
func (r *ruins) damaged() string {
	out, _ := r.tryPillion("events", "--kind", "state-damaged", "-o", "json")
	return out
}

// serverCell damages a file of the server and starts it: it is ready, and what is lost is counted, or it says what is.
func (r *ruins) serverCell(file string, apply func(string) error) error {
	s, folder := r.ruined("server", file, apply)
	defer s.kill()
	if !s.ready() {
		return s.gives(file)
	}
	return r.settled(filepath.Join(r.folder, folder, file))
}

// settled reports whether a server has all rows and its state, or says what it has lost.
func (r *ruins) settled(path string) error {
	rows, err := r.oldRows()
	if err != nil {
		if _, unhealthy := r.tryPillion("health"); unhealthy == nil || !strings.Contains(err.Error(), "the archive is damaged") {
			return fmt.Errorf("health: %v, rows: %w", unhealthy, err)
		}
		return nil
	}
	if rows < r.rows {
		eventually(r.t, "an event of the lost rows", func() bool { return strings.Contains(r.damaged(), "rows in") })
	}
	if state := r.states(); state != r.state {
		r.t.Logf("the state was\n%sand is\n%s", r.state, state)
		eventually(r.t, "an event of the lost state", func() bool { return strings.Contains(r.damaged(), filepath.Base(path)) })
	}
	return nil
}

// agentCell damages a file of the agent and starts it beside a server: all rows that were in its spools arrive, or
// count as dropped, or the agent says in a line what is lost.
func (r *ruins) agentCell(file string, apply func(string) error) error {
	s := r.server(r.copied("server"))
	defer s.kill()
	if !s.ready() {
		return errors.New(s.said())
	}
	a, _ := r.ruined("agent", file, apply)
	defer a.kill()
	if !a.ready() {
		return a.gives(file)
	}
	var rows, dropped int64
	eventually(r.t, "the rows of the spools", func() bool {
		var failed error
		_, _, dropped, failed = r.account()
		var err error
		rows, err = r.oldRows()
		return failed == nil && err == nil && rows+dropped >= r.all
	})
	r.t.Logf("%d rows before, %d of %d then, %d dropped", r.rows, rows, r.all, dropped)
	return nil
}

// account returns the rows that the agent has sent since it started, the batches that it holds, and the rows that
// it has dropped.
func (r *ruins) account() (sent, held, dropped int64, err error) {
	var shown struct {
		Spool struct {
			Batches     json.Number `json:"batches"`
			SentRows    json.Number `json:"sent_rows"`
			DroppedRows json.Number `json:"dropped_rows"`
		}
	}
	out, err := r.tryPillion("agents", "show", "h1", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &shown)
	}
	sent, _ = shown.Spool.SentRows.Int64() // absent if it is 0
	dropped, _ = shown.Spool.DroppedRows.Int64()
	held, _ = shown.Spool.Batches.Int64()
	return sent, held, dropped, err
}

func (r *ruins) cell(program, file string, apply func(string) error) error {
	if program == "agent" {
		return r.agentCell(file, apply)
	}
	return r.serverCell(file, apply)
}

// full copies the directory of a program to a disk that has no space left, and starts it. Once it is ready there is space.
func (r *ruins) full(program string) (p *ruinProcess, folder string) {
	r.t.Helper()
	folder = r.copied(program)
	path := filepath.Join(r.folder, folder)
	say := func(err error) {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	say(unix.Mount("tmpfs", path, "tmpfs", 0, "size=512m"))
	r.t.Cleanup(func() { say(unix.Unmount(path, unix.MNT_DETACH)) })
	say(exec.Command("cp", "-aT", filepath.Join(r.folder, program), path).Run())
	filler := filepath.Join(r.folder, folder, "filler")
	file, err := os.Create(filler)
	say(err)
	defer file.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		r.t.Fatal(err)
	}
	p = r.program(program, folder)
	p.ready()
	say(os.Remove(filler))
	return p, folder
}

// TestRot damages some files of a server and of an agent; make rot damages each file in each way.
func TestRot(t *testing.T) {
	r := newRuins(t)
	for _, cell := range []string{
		"server tokens.json one bit", "server archive.duckdb.wal halved", "server archive.duckdb halved", "server authority/server.pem zeros",
		"agent spool/*.spool halved", "agent spool/counts zeros", "agent spool-applications/*.spool deleted", "agent identity.json one bit",
	} {
		t.Run(cell, func(t *testing.T) {
			words := strings.SplitN(cell, " ", 3)
			file := slices.IndexFunc(r.files[words[0]], func(name string) bool { found, _ := filepath.Match(words[1], name); return found })
			damage := slices.IndexFunc(damages, func(d damage) bool { return d.name == words[2] })
			if file < 0 || damage < 0 {
				t.Fatalf("%s has the files %q", words[0], r.files[words[0]])
			}
			if err := r.in(t).cell(words[0], r.files[words[0]][file], damages[damage].apply); err != nil {
				t.Error(err)
			}
		})
	}
	for _, program := range []string{"server", "agent"} {
		t.Run(program+" no space", func(t *testing.T) {
			if err := r.in(t).cell(program, "", nil); err != nil {
				t.Error(err)
			}
		})
	}
}
