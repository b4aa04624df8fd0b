//go:build long

package lab_test

import (
	"net/netip"
	"testing"
	"time"
)

// TestLongProfileWithoutServer: without contact to the server the profile ends with its lease,
// and resumes when the server is back; earlier rows are archived once.
func TestLongProfileWithoutServer(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, throughRouter)
	app := b.steady(netip.MustParseAddr("10.77.2.2"), 1)
	b.running("s", "--from", "a", "--to", "b", "--router", "r", "--trace=-1s", "--lease", "2s")
	b.atLeast(2, "SELECT count(*) FROM router_account")
	server := b.program("server")
	server.kill()
	app.fallsSilent()
	silent := time.Now().Add(2 * time.Second) // a lease renewed before has expired then
	app.passes(1000)                          // for at least 5 s
	over := time.Now()
	server.start()
	app.marks()
	b.becomes("s", "running")
	b.stopped("s")
	b.reaches(0, "SELECT count(*) FROM router_account WHERE epoch_ns(time) - interval_ns BETWEEN %d AND %d", silent.UnixNano(), over.UnixNano())
	b.atLeast(1, "SELECT count(*) FROM router_account WHERE epoch_ns(time) < %d", silent.UnixNano())
	b.atLeast(1, "SELECT count(*) FROM router_account WHERE epoch_ns(time) > %d", over.UnixNano())
	b.reaches(0, "SELECT sum(seen::BIGINT - forwarded - dropped - local - merged - lost - unexplained) FROM router_account")
	b.reaches(0, "SELECT count(*) - count(DISTINCT time) FROM router_account")
	app.stop()
}

// TestLongSessionProfilesItsRouter: the rows of the session's router count exactly the packets
// that it forwarded for the session, and their account is closed.
func TestLongSessionProfilesItsRouter(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, throughRouter)
	b.running("s", "--from", "a", "--to", "b", "--router", "r", "--trace=-1s", "--filter", "src=10.77.1.1 dst=10.77.2.2")
	pair := b.open("a", "b", netip.MustParseAddrPort("10.77.2.2:9000"))
	pair.send(talk, 2000)
	pair.receive(talk)
	truth := b.settled("r-b", "r", talk).Marked
	if truth.Offered != talk {
		t.Errorf("the router sent %d marked packets, want %d", truth.Offered, talk)
	}
	b.stopped("s")
	for _, stage := range []string{"input_queuing", "processing", "output_queuing", "transit"} {
		b.reaches(int64(truth.Offered), "SELECT sum(packets) FROM router WHERE agent = 'r' AND session = 's' AND input = 'a' AND output = 'b' AND stage = '%s'", stage)
	}
	b.reaches(int64(truth.Offered), "SELECT sum(list_sum(delay_counts)) FROM router WHERE stage = 'transit'")
	b.reaches(int64(truth.Offered), "SELECT sum(forwarded) FROM router_account WHERE session = 's'")
	b.reaches(0, "SELECT sum(seen::BIGINT - forwarded - dropped - local - merged - lost) FROM router_account")
	b.reaches(0, "SELECT sum(abs(unexplained)) FROM router_account")
	b.reaches(0, "SELECT count(*) FROM events WHERE kind = 'task-failed'")
}
