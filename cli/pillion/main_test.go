package pillion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pillion.dev/cli/commandtest"
)

// TestMain runs the program itself in a process that a test starts as such.
func TestMain(m *testing.M) { commandtest.Main(m, Main) }

// program is the command line with its own home directory.
type program struct {
	t           *testing.T
	home        string
	environment []string
	input       string
}

func newProgram(t *testing.T, server *httptest.Server) *program {
	t.Helper()
	home := t.TempDir()
	p := &program{t: t, home: home, environment: []string{
		commandtest.Environment, "HOME=" + home, "TZ=UTC", "PATH=" + os.Getenv("PATH"), "PILLION_DATA=" + filepath.Join(home, "none"),
	}}
	if server != nil {
		authority := authorityFile(t, server)
		p.environment = append(p.environment, "PILLION_SERVER="+server.URL, "PILLION_TOKEN="+secret, "PILLION_CA="+authority)
	}
	return p
}

// authorityFile is a file with the certificate of a server.
func authorityFile(t *testing.T, server *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, []byte(certificateOf(server)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *program) command(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env, command.Dir, command.Stdin = p.environment, p.home, strings.NewReader(p.input)
	return command
}

func (p *program) run(args ...string) (out, errorText string, code int) {
	p.t.Helper()
	command := p.command(args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		if command.ProcessState == nil {
			p.t.Fatal(err)
		}
	}
	return stdout.String(), stderr.String(), command.ProcessState.ExitCode()
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// goldens are command lines whose output is in testdata.
var goldens = []struct {
	name, line string
	input      string
}{
	{name: "agents", line: "agents"},
	{name: "agents-json", line: "agents list -o json"},
	{name: "agents-csv", line: "agents -o csv"},
	{name: "agents-none", line: "agents --label x -o json"},
	{name: "agents-show", line: "agents show north1"},
	{name: "agents-unknown", line: "agents show unknown"},
	{name: "agents-label", line: "agents label north1 site=west role-"},
	{name: "agents-approve", line: "agents approve north1 site=west 10.0.0.0/24 2001:db8::1 role-"},
	{name: "agents-approve-nothing", line: "agents approve north1"},
	{name: "agents-label-bad", line: "agents label north1 =x"},
	{name: "agents-revoke", line: "agents revoke north1"},
	{name: "session-create", line: "session create --name s1 --from north1,south1 --to * --both --every 10 --min-gap 100us --interval 5s --by host --duration 7d --filter proto=tcp --device north1=eth1"},
	{name: "session-create-file", line: "session create - --every 3 -o json", input: "name: s2\nsources: [north1]\ndestinations: [south1]\ninterval: 2s\n"},
	{name: "session-create-unknown-key", line: "session create -", input: "name: s2\nsurces: [north1]\n"},
	{name: "session-create-dry", line: "session create --name s1 --from north1 --to south1 --start 2026-05-01T09:00:00Z --cron * --dry-run"},
	{name: "session-create-problems", line: "session create --name s1 --from north1"},
	{name: "session-list", line: "session list"},
	{name: "session-show", line: "session show web"},
	{name: "session-show-json", line: "session show web -o json"},
	{name: "session-change", line: "session change web --every 100 --no-both"},
	{name: "session-change-refused", line: "session change web --every 666"},
	{name: "session-change-other", line: "session change web -", input: "name: other\n"},
	{name: "session-stop", line: "session stop web"},
	{name: "session-watch", line: "session watch web"},
	{name: "session-watch-flow", line: "session watch web --by flow -o json --count 3"},
	{name: "session-watch-csv", line: "session watch web -o csv --count 1"},
	{name: "session-watch-corrected", line: "session watch web --clock corrected --count 1"},
	{name: "session-watch-corrected-json", line: "session watch web --clock corrected --count 1 -o json"},
	{name: "session-watch-corrected-csv", line: "session watch web --clock corrected --count 1 -o csv"},
	{name: "session-watch-unknown", line: "session watch nothing"},
	{name: "schedule", line: "schedule --from -1d --to +7d"},
	{name: "flows", line: "flows --session web"},
	{name: "flows-json", line: "flows --by pair -o json"},
	{name: "flows-pods", line: "flows --session pods"},
	{name: "flows-search", line: "flows --session pods --search coredns"},
	{name: "flows-pods-csv", line: "flows --session pods -o csv"},
	{name: "matrix", line: "matrix"},
	{name: "matrix-label", line: "matrix --by label --label site -o csv"},
	{name: "matrix-host-port", line: "matrix --by host-port --proto tcp"},
	{name: "flows-site", line: "flows --by site"},
	{name: "flows-site-hosts", line: "flows --by site --from-site north --to-site south"},
	{name: "flows-site-range", line: "flows --by site --from -1d"},
	{name: "topology", line: "topology"},
	{name: "topology-tree", line: "topology --tree"},
	{name: "topology-dot", line: "topology show --dot"},
	{name: "topology-csv", line: "topology -o csv"},
	{name: "query", line: "query SELECT"},
	{name: "query-json", line: "query - -o json", input: "SELECT 1"},
	{name: "query-csv", line: "query SELECT -o csv --limit 2"},
	{name: "query-bad", line: "query SELEC"},
	{name: "export", line: "export flows"},
	{name: "export-bad-time", line: "export flows --from yesterdayish"},
	{name: "tail", line: "tail clock -n 2"},
	{name: "tail-json", line: "tail -n 1 -o json"},
	{name: "tail-csv-many", line: "tail -o csv"},
	{name: "streams", line: "streams"},
	{name: "streams-one", line: "streams flows"},
	{name: "streams-none", line: "streams nothing"},
	{name: "retention-list", line: "retention"},
	{name: "retention-roll-up", line: "retention flows_1m --age 60d"},
	{name: "retention-unnamed", line: "retention --age 60d"},
	{name: "retention", line: "retention flows --rows 10M --bytes 2GiB"},
	{name: "events", line: "events"},
	{name: "alarms", line: "alarms"},
	{name: "alarms-all", line: "alarms --all --match source=north1 -o csv"},
	{name: "alarms-bad-match", line: "alarms --match loss"},
	{name: "alarms-ack", line: "alarms ack 2f7c0c5e1d0b9a64 --comment informed"},
	{name: "alarms-ack-unknown", line: "alarms ack 0"},
	{name: "alarms-silence", line: "alarms silence source=north1 alertname!=path --for 2h --comment maintenance"},
	{name: "alarms-silences", line: "alarms silences"},
	{name: "alarms-expire", line: "alarms expire k3v9x2m7qa"},
	{name: "alarms-rules", line: "alarms rules"},
	{name: "doctor", line: "doctor"},
	{name: "doctor-away", line: "doctor north1 south1 --peer north1 -o json"},
	{name: "doctor-way-twice", line: "doctor north1 north1"},
	{name: "doctor-address", line: "doctor north1 --peer 10.0.0.2"},
	{name: "doctor-measure", line: "doctor north1 --measure"},
	{name: "report-sla", line: "report sla --month 2026-11 --scope customer=acme --availability 99.9% --delay-p99 20ms --loss 0.1%"},
	{name: "report-sla-csv", line: "report sla --month 2026-11 --delay-p90 20ms --format csv"},
	{name: "report-sla-html", line: "report sla --month 2026-11 --scope customer=acme --availability 99.9% --delay-p99 20ms --loss 0.1% --format html"},
	{name: "report-sla-month", line: "report sla --month 2026-13"},
	{name: "report-sla-share", line: "report sla --month 2026-11 --loss 0.001"},
	{name: "token-create", line: "token create dash --role viewer --expires +90d"},
	{name: "token-create-join", line: "token create rack7 --role join --uses 40 --agents rack7-* --label rack=7"},
	{name: "token-create-scope", line: "token create acme --scope customer=acme --scope customer=acme:exchange"},
	{name: "token-list", line: "token list"},
	{name: "token-revoke", line: "token revoke old"},
	{name: "health", line: "health"},
	{name: "usage", line: "agents list --nonsense"},
}

func TestGolden(t *testing.T) {
	for _, test := range goldens {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f, server := newFake(t)
			p := newProgram(t, server)
			p.input = test.input
			out, stderr, code := p.run(strings.Split(test.line, " ")...)
			got := fmt.Sprintf("$ pillion %s\n%s", test.line, out)
			// The reasons that a watch prints depend on the time; see TestWhy.
			if stderr != "" && !(strings.HasPrefix(test.name, "session-watch") && code == 0) {
				got += "--- stderr\n" + stderr
			}
			f.mutex.Lock()
			defer f.mutex.Unlock()
			for _, asked := range f.asked {
				got += "--- asked\n" + asked + "\n"
			}
			got += fmt.Sprintf("--- exit %d\n", code)
			got = port.ReplaceAllString(got, "SERVER")
			got = strings.ReplaceAll(got, seen.UTC().Format(time.RFC3339Nano), "SEEN")
			commandtest.CompareGolden(t, filepath.Join("testdata", test.name+".golden"), got)
		})
	}
}
