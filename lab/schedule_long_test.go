//go:build long

package lab_test

import (
	"testing"
	"time"
)

// TestLongSessionSchedule: a session begins and ends on time, and marks only in between. A
// start while the server was down is reported as missed, or is late if its time is not
// over; schedules are kept.
func TestLongSessionSchedule(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	app := b.steady(secondIPv4, 1)
	at := func(after time.Duration) (time.Time, string) {
		start := time.Now().Add(after)
		return start, start.Format(time.RFC3339Nano)
	}
	start, text := at(5 * time.Second)
	b.pillion("session", "create", "--name", "soon", "--from", "a", "--to", "b", "--trace=-1s", "--start", text, "--duration", "8s")
	b.pillion("session", "create", "--name", "nightly", "--from", "a", "--to", "b",
		"--cron", "0 3 * * *", "--tz", "Europe/Berlin", "--duration", "1h")
	state, marked := b.sessionState("soon"), app.unmarked()
	if time.Now().Before(start) && (state != "scheduled" || marked != 0) {
		t.Errorf("session is %s before its start, %d packets are marked", state, marked)
	}
	app.marks()
	if time.Now().Before(start) {
		t.Error("packets were marked before the start")
	}
	b.becomes("soon", "ended")
	app.unmarked()
	truth := app.end()
	b.reaches(came(truth), "SELECT sum(packets) FROM flows WHERE session = 'soon'")
	if states := b.runStates("soon"); len(states) != 1 || states[0] != "done" {
		t.Errorf("runs of the session that ended are %v", states)
	}
	nightly := b.runStates("nightly")
	if len(nightly) != 7 || nightly[0] != "planned" && nightly[0] != "running" {
		t.Errorf("runs of a week of nights are %v", nightly)
	}

	start, text = at(30 * time.Second) // for the server to be killed before
	b.pillion("session", "create", "--name", "gone", "--from", "a", "--to", "b", "--start", text, "--duration", "1s")
	b.pillion("session", "create", "--name", "late", "--from", "a", "--to", "b", "--trace=-1s", "--start", text, "--duration", "1h")
	server := b.program("server")
	server.kill()
	if !time.Now().Before(start) {
		t.Fatal("this machine is too slow: the server was still running at the start")
	}
	eventually(t, "the time of the start to pass", func() bool { return time.Since(start) > 1500*time.Millisecond })
	server.start()
	b.becomes("gone", "ended")
	b.becomes("late", "running")
	b.reaches(1, "SELECT count(*) FROM events WHERE kind = 'start-missed' AND session = 'gone'")
	if states := b.runStates("gone"); len(states) != 1 || states[0] != "missed" {
		t.Errorf("runs of the session that was missed are %v", states)
	}
	if said := b.pillion("session", "show", "gone"); !containsAll(said, "missed", "the server was away") {
		t.Errorf("session that was missed shows as %s", said)
	}
	if states := b.runStates("nightly"); len(states) != len(nightly) {
		t.Errorf("runs after the restart are %v, before it %v", states, nightly)
	}
}
