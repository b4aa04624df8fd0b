//go:build long

package lab_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestLongRapidSessionCommands: commands that do not wait for each other do no harm. All marked
// packets are read and restored.
func TestLongRapidSessionCommands(t *testing.T) {
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

// TestLongSessionsTogether: sessions on one interface each have all of their packets, in separate
// rows, also one that asks for less of them than the others; one that wants them marked or told
// apart in another way is refused.
func TestLongSessionsTogether(t *testing.T) {
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

// TestLongSessionChanges: a pause stops marking and a resumption restarts it, and no change of
// a running session loses a packet or counts it twice.
func TestLongSessionChanges(t *testing.T) {
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
