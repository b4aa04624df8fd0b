package lab_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pillion.dev/lab/emulator"
)

// serviceBed is a lab in which Pillion itself runs.
type serviceBed struct {
	*bed
	server string // host
}

// service builds a lab of a YAML text that has a service.
func service(t testing.TB, text string) *serviceBed {
	t.Helper()
	b := &serviceBed{bed: up(t, text)}
	b.server = b.Spec.Service.Server
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		logs, _ := filepath.Glob(b.path("*.log"))
		for _, path := range logs {
			said, _ := os.ReadFile(path)
			if len(said) > 4000 {
				said = said[len(said)-4000:]
			}
			t.Logf("%s:\n%s", filepath.Base(path), said)
		}
	})
	return b
}

// twoHosts has a and b with an impaired link, and the server, which they reach by another
// path.
const twoHosts = `
hosts: {a: {}, b: {}, r: {forward: true}, noc: {}}
links:
  - ends: [a, b]
    emulate: {seed: 3, delay: 5ms, queue: 4000, from: {a: {loss: 1%, duplicate: 0.5%, reorder: 1%}}}
  - {ends: [a, r]}
  - {ends: [b, r]}
  - {ends: [r, noc]}
service: {server: noc, agents: [a, b]}
`

// pillion runs the command line on the server's host and returns what it wrote.
func (b *serviceBed) pillion(arguments ...string) string {
	b.t.Helper()
	output, err := b.tryPillion(arguments...)
	if err != nil {
		b.t.Fatalf("pillion %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return output
}

func (b *serviceBed) tryPillion(arguments ...string) (string, error) {
	token := filepath.Join(b.path("server"), "admin.token")
	command := exec.CommandContext(b.t.Context(), cliPath, append([]string{"--token-file", token}, arguments...)...)
	command.Env = append(os.Environ(), "HOME="+b.path("server"), "NO_COLOR=1")
	var output, warnings strings.Builder
	command.Stdout, command.Stderr = &output, &output
	if slices.Contains(arguments, "json") { // which a warning must not precede
		command.Stderr = &warnings
	}
	if err := b.Start(b.server, command); err != nil {
		return "", err
	}
	if err := command.Wait(); err != nil {
		return output.String() + warnings.String(), err
	}
	return output.String(), nil
}

// number returns the single figure that a query yields.
func (b *serviceBed) number(sql string, values ...any) int64 {
	b.t.Helper()
	n, err := b.tryNumber(sql, values...)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *serviceBed) tryNumber(sql string, values ...any) (int64, error) {
	sql = fmt.Sprintf("SELECT coalesce((%s), 0)::BIGINT AS n", fmt.Sprintf(sql, values...))
	output, err := b.tryPillion("query", "-o", "json", sql)
	if err != nil {
		return 0, fmt.Errorf("query %q: %w: %s", sql, err, output)
	}
	var row struct{ N int64 }
	if err := json.Unmarshal([]byte(output), &row); err != nil {
		return 0, fmt.Errorf("query %q: %w: %s", sql, err, output)
	}
	return row.N, nil
}

// reaches waits until a query yields the wanted figure.
func (b *serviceBed) reaches(want int64, sql string, values ...any) {
	b.t.Helper()
	var got int64
	var err error
	b.t.Cleanup(func() {
		if err != nil || got < want {
			b.t.Logf("%s was %d: %v", fmt.Sprintf(sql, values...), got, err)
		}
	})
	eventually(b.t, fmt.Sprintf("%s to be %d", fmt.Sprintf(sql, values...), want), func() bool {
		got, err = b.tryNumber(sql, values...)
		return err == nil && got >= want
	})
	if got != want {
		b.t.Errorf("%s is %d, want %d", fmt.Sprintf(sql, values...), got, want)
	}
}

// agrees waits until columns of the flows that meet a condition, by default all of these, have the truth of the
// link, all at a time: packets count as lost until they arrive, and the last ones until a source reports them as no
// packets at all.
func (b *serviceBed) agrees(truth emulator.Tally, where string, columns ...string) {
	b.t.Helper()
	counts := map[string]uint64{
		"packets": truth.Delivered + truth.Duplicated, "lost": truth.Lost, "duplicated": truth.Duplicated,
		"reordered": truth.Reordered, "expected": truth.Offered,
	}
	if len(columns) == 0 {
		columns = slices.Sorted(maps.Keys(counts))
	}
	var sums, want, got []string
	for _, column := range columns {
		sum := "sum(" + column + ")"
		if column == "lost" { // a packet that arrives after it was found lost, as on a stalled machine, is late
			sum += " - coalesce(sum(late), 0)"
		}
		sums = append(sums, fmt.Sprintf("coalesce(%s, 0)::BIGINT AS %s", sum, column))
		want = append(want, fmt.Sprintf("%s %d", column, counts[column]))
	}
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("flows WHERE %s: %v, truth %v", where, got, want)
		}
	})
	eventually(b.t, "the flows WHERE "+where+" to agree with the link", func() bool {
		output, err := b.tryPillion("query", "-o", "json", "SELECT "+strings.Join(sums, ", ")+" FROM flows WHERE "+where)
		var row map[string]uint64
		if err == nil {
			err = json.Unmarshal([]byte(output), &row)
		}
		if err != nil {
			got = []string{err.Error(), output}
			return false
		}
		got = nil
		for _, column := range columns {
			got = append(got, fmt.Sprintf("%s %d", column, row[column]))
		}
		return slices.Equal(got, want)
	})
}

// running starts a session and waits until it runs.
func (b *serviceBed) running(name string, arguments ...string) {
	b.t.Helper()
	b.pillion(append([]string{"session", "create", "--name", name}, arguments...)...)
	eventually(b.t, "session "+name+" to run", func() bool { return b.sessionState(name) == "running" })
}

// sessionState is a session as the server reports it.
func (b *serviceBed) sessionState(name string) string {
	b.t.Helper()
	var sessions []struct {
		State string
		Spec  struct{ Name string }
	}
	if err := json.Unmarshal([]byte(b.pillion("session", "list", "-o", "json")), &sessions); err != nil {
		b.t.Fatal(err)
	}
	for _, s := range sessions {
		if s.Spec.Name == name {
			return s.State
		}
	}
	return "none"
}

// TestServiceCountsTheTruth: the archived counts of a session equal the truth of all marked
// packets. So the destination read from before the first mark until after the last one.
// Each packet is stamped: delays rest on as many.
func TestServiceCountsTheTruth(t *testing.T) {
	serviceCountsTheTruth(t, "1")
}

func serviceCountsTheTruth(t *testing.T, every string) {
	b := service(t, twoHosts)
	b.running("truth", "--from", "a", "--to", "b", "--stamp-every", every)
	offered := b.spray(secondIPv4, 4, 5120, 20000)
	truth := b.settled("a-b", "a", offered).Marked
	if truth.Offered < offered {
		t.Errorf("of %d packets %d were marked", offered, truth.Offered)
	}
	b.agrees(truth, "session = 'truth'")
	delays := uint64(b.number("SELECT sum(delay_count) FROM flows WHERE session = 'truth'"))
	if all := every == "1"; all && delays != truth.Delivered || !all && (delays == 0 || delays > truth.Delivered) {
		t.Errorf("%d delays of %d packets, 1 in %s stamped", delays, truth.Delivered, every)
	}
	if n := b.number("SELECT count(*) FROM flows WHERE clock_error_ns + source_clock_error_ns IS DISTINCT FROM 0"); n != 0 {
		t.Errorf("%d rows have a clock error although both hosts share one clock", n)
	}
	delay := b.number("SELECT median(delay_p50_ns) FROM flows WHERE session = 'truth'")
	if off := delay - truth.Delay.P50; off < -1e6 || off > 1e6 {
		t.Errorf("median delay %d ns, truth %d ns", delay, truth.Delay.P50)
	}
}

// TestStopAndStart: the commands that stop and start programs of the service.
func TestStopAndStart(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	lab := func(want string, arguments ...string) {
		t.Helper()
		_, stderr, code := agent(t, append([]string{"lab"}, append(arguments, "--lab", b.Spec.Name)...)...)
		if (code == 0) != (want == "") || !strings.Contains(stderr, want) {
			t.Fatalf("lab %q: code %d: %s; want %q", arguments, code, stderr, want)
		}
	}
	connected := func(want string) {
		t.Helper()
		eventually(t, "agents "+want, func() bool {
			output, err := b.tryPillion("agents", "-o", "json")
			var agents []struct{ State string }
			if err != nil || json.Unmarshal([]byte(output), &agents) != nil {
				return false
			}
			states := ""
			for _, a := range agents {
				states += " " + a.State
			}
			return strings.TrimSpace(states) == want
		})
	}
	lab("it runs", "start", "noc")
	lab("neither", "stop", "r")
	lab("", "stop", "noc")
	lab("", "stop", "noc") // it has already exited
	if output, err := b.tryPillion("agents"); err == nil {
		t.Errorf("a stopped server answers %s", output)
	}
	lab("", "start", "noc")
	connected("connected connected")
	lab("", "stop", "b", "--kill")
	connected("connected away")
	lab("", "start", "b")
	connected("connected connected")
}
