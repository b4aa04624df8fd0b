package lab_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// plainRouter is a router between two hosts, with nothing emulated.
const plainRouter = `hosts: {a: {}, r: {forward: true}, b: {}}
links:
  - ends: [a, r]
  - ends: [r, b]
`

// profileTimes and profileSummary are the parts of the JSON that the tests compare.
type profileTimes struct {
	Count         uint64
	Min, P50, Max uint64
	Mean          float64
}

type profileSummary struct {
	Seen, Forwarded, Dropped, Local, Merged, Lost uint64
	InFlight                                      uint64            `json:"in_flight"`
	NoArrival                                     uint64            `json:"no_arrival"`
	DropReasons                                   map[string]uint64 `json:"drop_reasons"`
	Unexplained                                   int64
	DurationS                                     float64 `json:"duration_s"`
	Pairs                                         []struct {
		Input, Output  string
		Packets, Bytes uint64
		Stages         struct {
			InputQueuing  profileTimes `json:"input_queuing_ns"`
			Processing    profileTimes `json:"processing_ns"`
			OutputQueuing profileTimes `json:"output_queuing_ns"`
			Transit       profileTimes `json:"transit_ns"`
		}
	}
	Cost *struct {
		HookNs   float64 `json:"hook_ns"`
		PacketNs float64 `json:"packet_ns"`
	}
	Records struct{ Written, Lost uint64 }
}

// profiling is a profile that runs in the background.
type profiling struct {
	t       *testing.T
	command *exec.Cmd
	lines   *json.Decoder
	stderr  bytes.Buffer
}

// profile starts a profile by the host's name, and returns when it counts packets.
func (b *bed) profile(t *testing.T, arguments ...string) *profiling {
	t.Helper()
	p := &profiling{t: t}
	p.command = exec.Command(agentPath, append([]string{"router", "--netns", "r", "--lab", b.Spec.Name, "--json", "--interval", "100ms"}, arguments...)...)
	p.command.Stderr = &p.stderr
	output, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	})
	p.lines = json.NewDecoder(output)
	if first := p.next(); first["ready"] == nil {
		t.Fatalf("the first line is %v", first)
	}
	return p
}

func (p *profiling) next() map[string]json.RawMessage {
	p.t.Helper()
	line := map[string]json.RawMessage{}
	if err := p.lines.Decode(&line); err != nil {
		p.t.Fatalf("read line: %v; %s", err, p.stderr.String())
	}
	return line
}

// until waits for an interval whose account matches.
func (p *profiling) until(fits func(seen, forwarded uint64) bool) {
	p.t.Helper()
	eventually(p.t, "an interval", func() bool {
		var interval struct {
			Account struct{ Seen, Forwarded uint64 }
		}
		if err := json.Unmarshal(p.next()["interval"], &interval); err != nil {
			p.t.Fatal(err)
		}
		return fits(interval.Account.Seen, interval.Account.Forwarded)
	})
}

// end interrupts the profile and returns its last line.
func (p *profiling) end() profileSummary {
	p.t.Helper()
	if err := p.command.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
	var summary profileSummary
	for {
		line := map[string]json.RawMessage{}
		err := p.lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if text := line["summary"]; text != nil {
			if err := json.Unmarshal(text, &summary); err != nil {
				p.t.Fatal(err)
			}
		} else if summary.DurationS > 0 {
			p.t.Errorf("the summary is not the last line but %v", line)
		}
	}
	if err := p.command.Wait(); err != nil {
		p.t.Fatalf("%v; %s", err, p.stderr.String())
	}
	return summary
}

// TestProfileOfARouter: the summary adds up, the records and the report have its figures,
// and Ctrl-C exits with success.
func TestProfileOfARouter(t *testing.T) {
	b := up(t, plainRouter)
	folder := t.TempDir()
	records, report := filepath.Join(folder, "records.csv"), filepath.Join(folder, "report.html")
	const count, port = 4000, 9000
	s := b.open("a", "b", netip.MustParseAddrPort(fmt.Sprintf("10.77.2.2:%d", port)))
	p := b.profile(t, "--filter", fmt.Sprintf("proto=udp dport=%d", port), "--records", records, "--report", report)
	s.send(count, 5000)
	s.receive(count)
	p.until(func(seen, _ uint64) bool { return seen == count })
	got := p.end()
	if sum := got.Forwarded + got.Dropped + got.Local + got.Merged + got.InFlight + got.Lost; sum != got.Seen || got.Unexplained != 0 {
		t.Errorf("%d seen, but %d explained and %d not", got.Seen, sum, got.Unexplained)
	}
	// A machine may not run tracing programs in some contexts; packets that are unseen there
	// are counted as lost.
	if got.Seen != count || got.Forwarded+got.Lost != count {
		t.Errorf("%d of %d packets seen, %d forwarded, %d lost", got.Seen, count, got.Forwarded, got.Lost)
	}
	if len(got.Pairs) != 1 || got.Pairs[0].Input != "a" || got.Pairs[0].Output != "b" {
		t.Fatalf("pairs %+v", got.Pairs)
	}
	pair := got.Pairs[0]
	if pair.Packets != got.Forwarded || pair.Bytes != got.Forwarded*(56+28) {
		t.Errorf("%d packets with %d bytes, of %d forwarded", pair.Packets, pair.Bytes, got.Forwarded)
	}
	stages := pair.Stages
	for name, times := range map[string]profileTimes{
		"input": stages.InputQueuing, "processing": stages.Processing, "output": stages.OutputQueuing, "transit": stages.Transit,
	} {
		want := got.Forwarded
		if name == "input" || name == "transit" {
			want -= got.NoArrival
		}
		if times.Count != want || times.Min == 0 || times.Min > times.P50 || times.P50 > times.Max {
			t.Errorf("%s: %+v", name, times)
		}
	}
	if sum := stages.InputQueuing.Mean + stages.Processing.Mean + stages.OutputQueuing.Mean; got.NoArrival == 0 && (sum < stages.Transit.Mean-1 || sum > stages.Transit.Mean+1) {
		t.Errorf("the stages' means add up to %.1f ns, transit is %.1f ns", sum, stages.Transit.Mean)
	}
	if got.Cost == nil || got.Cost.HookNs <= 0 || got.Cost.PacketNs <= got.Cost.HookNs {
		t.Errorf("cost %+v", got.Cost)
	}
	checkRecords(t, records, got)
	checkReport(t, report, got)
}

// checkRecords: one line for each packet, in the order of its four times.
func checkRecords(t *testing.T, path string, want profileSummary) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if n := uint64(len(lines) - 1); n != want.Records.Written || n+want.Records.Lost != want.Forwarded {
		t.Errorf("%d lines; %d written and %d lost of %d forwarded", n, want.Records.Written, want.Records.Lost, want.Forwarded)
	}
	var sum, stages, unobserved uint64
	for _, line := range lines[1:] {
		var t1, t2, t3, t4 uint64
		if line[0] == "" { // no hook observed the arrival
			unobserved++
			continue
		}
		if _, err := fmt.Sscan(strings.Join(line[:4], " "), &t1, &t2, &t3, &t4); err != nil {
			t.Fatal(err)
		}
		if t1 > t2 || t2 > t3 || t3 > t4 || line[4] != "a" || line[5] != "b" || line[8] != "udp" || line[10] != "9000" || line[11] != "84" {
			t.Fatalf("record %v", line)
		}
		sum, stages = sum+t4-t1, stages+(t2-t1)+(t3-t2)+(t4-t3)
	}
	if unobserved > want.NoArrival {
		t.Errorf("%d records without an arrival, want at most %d", unobserved, want.NoArrival)
	}
	mean := float64(sum) / float64(max(len(lines)-1-int(unobserved), 1))
	if transit := want.Pairs[0].Stages.Transit.Mean; want.Records.Lost == 0 && (mean < transit-1 || mean > transit+1) || sum != stages {
		t.Errorf("mean transit of the records is %.1f ns, want %.1f ns", mean, transit)
	}
}

// reported is what the report draws.
type reported struct {
	Summary   profileSummary    `json:"summary"`
	Hint      string            `json:"hint"`
	Intervals []json.RawMessage `json:"intervals"`
}

func readReport(t *testing.T, path string) (page string, r reported) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, data, _ := strings.Cut(string(text), `<script type="application/json" id="profile">`)
	data, _, _ = strings.Cut(data, "</script>")
	if err := json.Unmarshal([]byte(data), &r); err != nil {
		t.Fatalf("%v in %.200s", err, data)
	}
	return string(text), r
}

// checkReport: the page has the same figures, also as text for a browser without scripts.
func checkReport(t *testing.T, path string, want profileSummary) {
	t.Helper()
	page, got := readReport(t, path)
	if got.Summary.Forwarded != want.Forwarded || got.Summary.Lost != want.Lost || !reflect.DeepEqual(got.Summary.Pairs, want.Pairs) || len(got.Intervals) == 0 {
		t.Errorf("the report has %d intervals and %+v, want %+v", len(got.Intervals), got.Summary, want)
	}
	for _, text := range []string{fmt.Sprintf("\na &gt; b: %d packets", want.Forwarded), "proto=udp dport=9000"} {
		if !strings.Contains(page, text) {
			t.Errorf("the report has no %q", text)
		}
	}
}

// TestProfileOfAnIdleRouter: without forwarded packets, a hint names the possible cause.
func TestProfileOfAnIdleRouter(t *testing.T) {
	b := up(t, plainRouter)
	b.exec("r", "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")
	path := netns.Path(b.Namespace("r"))
	report := filepath.Join(t.TempDir(), "report.html")
	for _, name := range []string{path, filepath.Base(path)} {
		output, stderr, code := agent(t, "router", "--netns", name, "--dev", "a,b", "--duration", "200ms", "--no-costs", "--report", report)
		if code != 0 || !strings.Contains(output, "Nothing was forwarded.") || !strings.Contains(output, "ingress a, egress b") {
			t.Errorf("exit code %d: %s%s", code, output, stderr)
		}
		if !strings.HasPrefix(stderr, "hint: ") || !strings.Contains(stderr, "sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1") {
			t.Errorf("the hint is %q", stderr)
		}
	}
	if page, got := readReport(t, report); got.Summary.Forwarded != 0 || !strings.Contains(got.Hint, "sysctl -w") || got.Summary.Cost != nil || !strings.Contains(page, "Nothing was forwarded.") {
		t.Errorf("the report has the hint %q and %+v", got.Hint, got.Summary)
	}
}

// TestProfileErrors: each error is one line, with a hint.
func TestProfileErrors(t *testing.T) {
	b := up(t, plainRouter)
	host := []string{"--lab", b.Spec.Name, "--netns", "r"}
	tests := map[string]struct {
		args []string
		want string
	}{
		"no namespace":     {[]string{"--netns", "nowhere", "--lab", b.Spec.Name}, `open namespace "nowhere": no such network namespace, and lab .* has no such host`},
		"no path":          {[]string{"--netns", "/run/netns/nowhere"}, `open namespace "/run/netns/nowhere": no such network namespace`},
		"another file":     {[]string{"--netns", "/etc/hostname"}, "no such network namespace"},
		"no process":       {[]string{"--netns", "2147483647"}, "no such network namespace"},
		"no lab":           {[]string{"--netns", "r", "--lab", "nolab"}, "no such lab"},
		"no device":        {append(host, "--dev", "a,z"), `find device "z"`},
		"bad filter":       {append(host, "--filter", "port=80"), `read filter "port=80"`},
		"bad interval":     {append(host, "--interval", "0s"), "read times: invalid value"},
		"bad record bytes": {append(host, "--records", filepath.Join(t.TempDir(), "r"), "--record-bytes", "5000"), "5000 bytes of records"},
		"no such folder":   {append(host, "--report", "/nonexistent/r.html"), "create report: /nonexistent/r.html: no such file"},
	}
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			_, stderr, code := agent(t, append([]string{"router", "--duration", "100ms"}, test.args...)...)
			checkErrorOutput(t, stderr, code, test.want)
		})
	}
}

func TestProfileWithoutRoot(t *testing.T) {
	namespace.NeedRoot(t)
	folder, err := os.MkdirTemp("", "pillion-nobody") // t.TempDir is not accessible to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	script := fmt.Sprintf("chmod 755 %s && cp %s %s && chmod a+rx %s/*", folder, agentPath, folder, folder)
	if said, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	command := exec.Command(filepath.Join(folder, "pillion-agent"), "router", "--duration", "100ms")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	said, _ := command.CombinedOutput()
	checkErrorOutput(t, string(said), command.ProcessState.ExitCode(), "not permitted")
}

// TestDocumentedProfiles runs the documented commands in a router.
func TestDocumentedProfiles(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, plainRouter)
	d := newDesk(t)
	text := ofClass(t, "docs/howto/router.md", "router")
	text = strings.NewReplacer("--netns r ", "--netns "+b.Namespace("r")+" ", "--duration 5s", "--duration 200ms").Replace(text)
	said := d.run(text)
	if n := strings.Count(said, "Profiling the router in "); n != strings.Count(text, "pillion-agent router")-1 || !strings.Contains(said, `{"summary":{`) {
		t.Errorf("%d profiles began:\n%s", n, said)
	}
	for _, name := range []string{"router.html", "packets.csv"} {
		if _, err := os.Stat(filepath.Join(d.folder, name)); err != nil {
			t.Error(err)
		}
	}
}
