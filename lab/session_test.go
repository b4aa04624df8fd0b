package lab_test

import (
	"encoding/json"
	"fmt"
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
