package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/quota"
	"pillion.dev/session"
)

// TestFloodOfAddresses: an agent that reports more addresses than its quota, or what is
// invalid, is told so; its first addresses are used, and the session of others runs on.
func TestFloodOfAddresses(t *testing.T) {
	bed(t, func(b *testbed) {
		refused := map[string]int{}
		b.control.Refused = func(agent string, err error) {
			cause := "invalid"
			if q := quota.Of(err); q != nil {
				cause = q.Quota
			}
			refused[agent+" "+cause]++
			b.control.Notify(agent, err)
		}
		b.join("h1", "h2", "evil")
		b.on("evil", func(h *host) { h.connected = false }) // it reports below
		b.create(web())
		b.state("web", Running)
		flood := session.State{Agent: "evil", Instance: "x", Version: "1"}
		for i := range 20 {
			one := session.Interface{Name: fmt.Sprint("eth", i), Up: true}
			for k := range 250 {
				one.Addresses = append(one.Addresses, fmt.Sprintf("10.9.%d.%d/32", i, k))
			}
			flood.Interfaces = append(flood.Interfaces, one)
		}
		rounds, last := 0, time.Time{}
		for n := range 500 {
			flood.Labels = map[string]string{"n": fmt.Sprint(n)}
			text, err := json.Marshal(flood)
			if err != nil {
				t.Fatal(err)
			}
			b.control.HandleState("evil", text)
			b.control.HandleState("evil", []byte("{"))
			b.pass(10 * time.Millisecond)
			b.control.mu.Lock()
			if b.control.rounded != last {
				rounds, last = rounds+1, b.control.rounded
			}
			b.control.mu.Unlock()
		}
		b.state("web", Running)
		agent, err := b.control.Agent("evil")
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, i := range agent.Interfaces {
			count += len(i.Addresses)
		}
		if count != addressesOfAgent || refused["evil addresses"] != 500 || refused["evil invalid"] != 500 || len(refused) != 2 {
			t.Errorf("%d addresses are considered, refused %v", count, refused)
		}
		if rounds > 15 {
			t.Errorf("%d rounds in 5 s", rounds)
		}
		b.mu.Lock()
		notice := b.hosts["evil"].notice
		b.mu.Unlock()
		if !strings.Contains(notice, "1024 addresses for each agent (quotas.addresses)") {
			t.Errorf("it was told %q", notice)
		}
	})
}

// TestBoundedInterfaces: an agent with more interfaces than a report has stays connected and is
// measured; what its report leaves out is said once, and again when it changes.
func TestBoundedInterfaces(t *testing.T) {
	bed(t, func(b *testbed) {
		var refused []string
		b.control.Refused = func(agent string, err error) { refused = append(refused, agent+": "+err.Error()) }
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		b.on("h1", func(h *host) { h.interfaces = 1030 })
		b.pass(30 * time.Second)
		b.state("web", Running)
		if len(refused) != 1 || !strings.Contains(refused[0], "h1: ") || !strings.HasSuffix(refused[0], "leaves out 7 interfaces") {
			t.Errorf("said %q", refused)
		}
		if agent, err := b.control.Agent("h1"); err != nil || agent.State != Connected || len(agent.Interfaces) != 1024 || len(agent.Interfaces[0].Addresses) == 0 {
			t.Errorf("%s, %d interfaces: %v", agent.State, len(agent.Interfaces), err)
		}
		b.on("h1", func(h *host) { h.interfaces = 1031 })
		b.pass(3 * time.Second)
		if len(refused) != 2 {
			t.Errorf("said %q", refused)
		}
	})
}

// TestNotices: an agent is told at most one refusal in ten seconds, and only once.
func TestNotices(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		b.control.Notify("nobody", errors.New("x"))
		b.control.Notify("h1", errors.New("first"))
		b.control.Notify("h1", errors.New("second"))
		b.pass(2 * time.Second)
		if got := b.control.notices.take("h1", time.Now()); got != "" {
			t.Errorf("%q is sent again", got)
		}
		if got := b.hosts["h1"].notice; got != "first" {
			t.Errorf("it was told %q", got)
		}
	})
}
