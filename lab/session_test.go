package lab_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// perfect is twoHosts with a link without loss.
var perfect = strings.Replace(twoHosts, ", from: {a: {loss: 1%, duplicate: 0.5%, reorder: 1%}}", "", 1)

// atLeast waits until a query's figure reaches a minimum.
func (b *serviceBed) atLeast(least int64, sql string, values ...any) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%s to be %d or more", fmt.Sprintf(sql, values...), least), func() bool {
		got, err := b.tryNumber(sql, values...)
		return err == nil && got >= least
	})
}

// task returns the counters of an agent's task of a session.
func (b *serviceBed) task(session, agent, role string) map[string]uint64 {
	b.t.Helper()
	var shown struct {
		Session struct {
			Tasks []struct {
				Agent, Role string
				Counters    map[string]uint64
			}
		}
	}
	if err := json.Unmarshal([]byte(b.pillion("session", "show", session, "-o", "json")), &shown); err != nil {
		b.t.Fatal(err)
	}
	for _, task := range shown.Session.Tasks {
		if task.Agent == agent && task.Role == role {
			return task.Counters
		}
	}
	b.t.Fatalf("session %s has no %s on %s: %+v", session, role, agent, shown)
	return nil
}

func containsAll(text string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// TestSessionOnTheWire: while an application sends continuously, sessions start and stop.
// Its packets are marked only in between, and each marked one is read and restored: no
// source marks before its destination reads, or after it has ended.
func TestSessionOnTheWire(t *testing.T) {
	t.Parallel() // it mostly waits
	tests := map[string]struct {
		to    netip.Addr
		times int
	}{"ipv4": {secondIPv4, 2}, "ipv6": {secondIPv6, 1}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := service(t, twoHosts)
			app := b.steady(test.to, 2)
			app.passes(some)
			if n := app.unmarked(); n != 0 {
				t.Errorf("%d packets were marked before any session", n)
			}
			for n := range test.times {
				name := fmt.Sprintf("wire%d", n)
				b.running(name, "--from", "a", "--to", "b", "--trace=-1s")
				app.marks()
				b.stopped(name)
				app.unmarked()
			}
			truth := app.end()
			b.reaches(came(truth), "SELECT sum(packets) FROM flows")
			b.reaches(int64(test.times), "SELECT count(DISTINCT session) FROM flows WHERE packets > 0")
		})
	}
}

// TestSessionChanges: a pause stops marking and a resumption restarts it, and no change of
// a running session loses a packet or counts it twice.
func TestSessionChanges(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, perfect)
	app := b.steady(secondIPv4, 2)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "200ms")
	app.marks()

	b.pillion("session", "pause", "s")
	b.becomes("s", "paused")
	app.fallsSilent()
	app.unmarked()
	b.pillion("session", "resume", "s")
	b.becomes("s", "running")
	app.marks()

	before := b.task("s", "b", "destination")
	b.pillion("session", "change", "s", "--every", "4")
	eventually(t, "one packet in four to be marked", func() bool {
		first := app.marked()
		app.passes(some)
		more := app.marked() - first
		return 0 < more && more < some // of two flows
	})
	eventually(t, "the destination to continue", func() bool {
		after := b.task("s", "b", "destination")
		return after["packets"] > before["packets"] && after["device_marked"] > before["device_marked"]
	})
	b.pillion("session", "change", "s", "--every", "1")
	app.marks()

	b.pillion("session", "change", "s", "--by", "host")
	b.atLeast(1, "SELECT sum(packets) FROM flows WHERE sport IS NULL")
	app.marks()
	b.pillion("session", "change", "s", "--by", "flow", "--interval", "1s")
	app.marks()

	b.pillion("session", "change", "s", "--records")
	b.atLeast(some, "SELECT count(*) FROM packets WHERE session = 's'")
	b.pillion("session", "change", "s", "--no-records")
	app.marks()

	for _, flags := range [][]string{{"--encoding", "shim"}, {"--modules", "loss"}, {"--encoding", "udp", "--modules", "delay,loss"}} {
		b.pillion(append([]string{"session", "change", "s"}, flags...)...)
		app.marks()
	}

	b.stopped("s")
	app.unmarked()
	truth := app.end()
	b.reaches(came(truth), "SELECT sum(packets) FROM flows")
	b.reaches(0, "SELECT sum(lost) + sum(duplicated) FROM flows")
	b.reaches(came(truth), "SELECT sum(expected) FROM flows")
}

// TestRapidSessionCommands: commands that do not wait for each other do no harm. All marked
// packets are read and restored.
func TestRapidSessionCommands(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	app := b.steady(secondIPv4, 2)
	flags := []string{"--from", "a", "--to", "b", "--trace=-1s", "--lease", "2s", "--interval", "100ms"}
	create := append([]string{"session", "create", "--name", "s"}, flags...)
	beside := append([]string{"session", "create", "--name", "beside", "--filter", "proto=tcp"}, flags...)
	commands := [][]string{
		create, beside,
		{"session", "pause", "s"}, {"session", "resume", "s"}, {"session", "resume", "s"},
		{"session", "change", "s", "--every", "2"}, {"session", "change", "s", "--every", "1"},
		{"session", "change", "s", "--records"}, {"session", "change", "s", "--no-records"},
		{"session", "change", "s", "--by", "host"}, {"session", "change", "s", "--interval", "200ms"},
		{"session", "change", "s", "--encoding", "shim"}, {"session", "change", "s", "--encoding", "udp"},
		{"session", "stop", "s"}, {"session", "stop", "beside"}, {"session", "delete", "s"}, {"session", "delete", "beside"},
	}
	chance := rand.New(rand.NewPCG(5, 7))
	b.pillion(create...)
	app.marks()
	for range 50 {
		app.passes(chance.Uint64N(60))
		_, _ = b.tryPillion(commands[chance.IntN(len(commands))]...) // many of them are refused
	}
	for _, name := range []string{"s", "beside"} {
		_, _ = b.tryPillion("session", "stop", name)
		eventually(t, name+" to end", func() bool {
			state := b.sessionState(name)
			return state == "ended" || state == "none"
		})
	}
	app.unmarked()
	truth := app.end()
	t.Logf("%d of %d packets were marked", truth.Marked.Offered, truth.Total.Offered)
	b.reaches(came(truth), "SELECT sum(packets) FROM flows")
}

// TestSessionRecords: a session with records has a row for each marked packet.
func TestSessionRecords(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	b.running("s", "--from", "a", "--to", "b", "--records", "--trace=-1s")
	b.spray(secondIPv4, 2, 2048, 4000)
	b.stopped("s")
	truth := b.settled("a-b", "a", 0)
	b.reaches(came(truth), "SELECT sum(packets) FROM flows")
	b.reaches(came(truth), "SELECT sum(packets) FROM packets")
	b.reaches(4, "SELECT count(DISTINCT (source, agent, dport, session)) + count(DISTINCT encoding) + count(DISTINCT proto) FROM packets")
}

// TestSessionsTogether: sessions on one interface each have all of their packets, in separate
// rows, also one that asks for less of them than the others; one that wants them marked or told
// apart in another way is refused.
func TestSessionsTogether(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	b.running("fine", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "100ms")
	b.running("coarse", "--from", "a", "--to", "b", "--trace=-1s", "--by", "host")
	b.running("port", "--from", "a", "--to", "b", "--trace=-1s", "--filter", "proto=udp dport=9001")
	b.running("few", "--from", "a", "--to", "b", "--trace=-1s", "--every", "10", "--modules", "loss")
	refused := map[string][]string{
		"encoding": {"--encoding", "shim"},
		"flow":     {"--flow", "src,dst"},
	}
	for field, flags := range refused {
		output, err := b.tryPillion(append([]string{"session", "create", "--name", "other", "--from", "a", "--to", "b"}, flags...)...)
		if err == nil || !containsAll(output, "conflict", field) {
			t.Errorf("session with another %s: %v: %s", field, err, output)
		}
		if state := b.sessionState("other"); state != "none" {
			t.Errorf("refused session is %s", state)
		}
	}
	b.spray(secondIPv4, 2, 2048, 4000)
	truth := b.settled("a-b", "a", 0)
	for _, name := range []string{"fine", "coarse", "few"} {
		b.reaches(came(truth), "SELECT sum(packets) FROM flows WHERE session = '%s'", name)
		b.reaches(int64(truth.Marked.Lost), "SELECT sum(lost) FROM flows WHERE session = '%s'", name)
	}
	second := b.number("SELECT sum(packets) FROM flows WHERE session = 'fine' AND dport = 9001")
	b.reaches(second, "SELECT sum(packets) FROM flows WHERE session = 'port'")
	for name, want := range map[string]int64{"fine": 2, "port": 1, "coarse": 0} {
		b.reaches(want, "SELECT count(DISTINCT dport) FROM flows WHERE session = '%s'", name)
	}
	// One ends, the other continues.
	b.stopped("fine")
	const more = 512
	b.open("a", "b", netip.AddrPortFrom(secondIPv4, 9100)).send(more, 4000)
	after := b.settled("a-b", "a", truth.Total.Offered+more)
	if got := after.Marked.Offered - truth.Marked.Offered; got != more {
		t.Errorf("of %d packets %d were marked for the remaining sessions", more, got)
	}
	truth = after
	b.reaches(came(truth), "SELECT sum(packets) FROM flows WHERE session = 'coarse'")
}
