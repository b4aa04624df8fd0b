//go:build long

package lab_test

import (
	"fmt"
	"testing"
	"time"
)

// TestLongServerDies: without a server, sources mark no longer than their lease, and the
// application is not affected. When it is back, marking resumes, and the rows measured in
// between are archived once.
func TestLongServerDies(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	app := b.steady(secondIPv4, 2)
	b.running("s", "--from", "a", "--to", "b", "--lease", "2s", "--trace=-1s", "--interval", "100ms")
	app.marks()
	server := b.program("server")
	server.kill()
	app.fallsSilent()
	app.unmarked()
	server.start()
	app.marks() // without a command
	b.becomes("s", "running")
	b.stopped("s")
	app.unmarked()
	b.reaches(came(app.end()), "SELECT sum(packets) FROM flows")
}

// TestLongDestinationDies: a source does not mark for a destination without an agent.
// Packets that are marked nevertheless are restored by the pinned program.
func TestLongDestinationDies(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, perfect)
	app := b.steady(secondIPv4, 2)
	b.running("s", "--from", "a", "--to", "b", "--lease", "2s", "--trace=-1s", "--interval", "100ms")
	app.marks()
	b.atLeast(some, "SELECT sum(packets) FROM flows")
	destination := b.program("agent-b")
	destination.kill()
	app.fallsSilent()
	silent := int64(app.unmarked()) // none is lost, so all arrived
	b.becomes("s", "degraded")
	b.atLeast(1, "SELECT count(*) FROM events WHERE kind = 'agent-lost' AND about = 'b'")
	back := fmt.Sprintf("make_timestamp_ns(%d)", time.Now().UnixNano())
	destination.start()
	app.marks()
	b.becomes("s", "running")
	b.stopped("s")
	app.unmarked()
	truth := app.end()
	b.reaches(came(truth)-silent, "SELECT sum(packets) FROM flows WHERE time > %s", back)
	// Records that the killed process had not written are lost; none is stored twice.
	before := b.number("SELECT sum(packets) FROM flows WHERE time < %s", back)
	if before < some || before > silent {
		t.Errorf("%d packets were marked before it was back, the archive has %d", silent, before)
	}
}

// TestLongSourceDies: a source that is killed marks no longer than its lease, and marks
// again when it is back.
func TestLongSourceDies(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, perfect)
	app := b.steady(secondIPv4, 2)
	b.running("s", "--from", "a", "--to", "b", "--lease", "2s", "--trace=-1s", "--interval", "100ms")
	app.marks()
	source := b.program("agent-a")
	source.kill()
	app.fallsSilent()
	app.unmarked()
	b.becomes("s", "degraded")
	source.start()
	app.marks()
	b.becomes("s", "running")
	b.stopped("s")
	app.unmarked()
	truth := app.end()
	b.reaches(came(truth), "SELECT sum(packets) FROM flows")
	b.reaches(0, "SELECT sum(lost) FROM flows")
}
