//go:build long

package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/test/hang"
)

// memoryBound is what the server may use with memory_bytes 256 MiB: that, the queues of
// batches (64 MiB and 128 MiB), what NATS holds for the flood (up to 64 MiB), and as much
// again for the collector of garbage.
const memoryBound = 1 << 30

const (
	joinAtOnce = 8
	rowsEach   = 10 // per second and agent
)

// TestLongHostileFleet: five of 200 agents flood the server for a minute, or as long as the
// environment variable FLOOD says.
func TestLongHostileFleet(t *testing.T) {
	duration := time.Minute
	if text := os.Getenv("FLOOD"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	hostileFleet(t, 200, 5, duration)
}

// hostileFleet checks that what others measured is stored exactly once, and that the server's memory stays within its
// bound while some agents flood it. How long agents hear no heartbeat depends on the machine, and is printed.
func hostileFleet(t *testing.T, agents, hostile int, duration time.Duration) {
	s := startBuilt(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	token, err := s.Secret("join.token")
	if err != nil {
		t.Fatal(err)
	}
	joining := Joining{Server: s.Address, Token: token, Folder: t.TempDir()}
	hosts, evil := make([]*Host, agents-hostile), make([]*Hostile, hostile)
	joinAll(t, len(hosts), func(i int) (err error) {
		hosts[i], err = joining.JoinHost(ctx, fmt.Sprintf("good-%03d", i))
		return err
	})
	joinAll(t, hostile, func(i int) (err error) {
		evil[i], err = joining.JoinHostile(ctx, fmt.Sprintf("evil-%d", i))
		return err
	})
	working, stopWork := context.WithCancel(ctx)
	connected, disconnect := context.WithCancel(ctx)
	var work, connections sync.WaitGroup
	defer connections.Wait()
	defer disconnect()
	defer stopWork()
	var addresses, names []string
	for i, h := range hosts {
		address := fmt.Sprintf("10.77.%d.%d/16", i/250, i%250+1)
		addresses, names = append(addresses, address), append(names, h.Name)
		defer h.Bus.Close()
		connections.Go(func() { h.Connect(connected, address) })
		work.Go(func() { h.Work(working, rowsEach) })
	}
	lease(t, s, hosts, names)

	flooding, stopFlood := context.WithTimeout(ctx, duration)
	defer stopFlood()
	largest := make(chan int64, 1)
	go func() { largest <- watch(flooding, s) }()
	var floods sync.WaitGroup
	for _, e := range evil {
		floods.Go(func() { e.Flood(flooding, busAddress(t, s), addresses[:min(len(addresses), 200)]) })
	}
	floods.Wait()
	resident := <-largest
	for _, e := range evil {
		t.Logf("%s: %d messages sent, %d refused or not answered", e.Name, e.Attempts.Load(), e.Refusals.Load())
		e.Close()
	}
	stopWork()
	work.Wait()
	account(t, s, hosts)
	t.Logf("server: at most %d MiB resident, bound %d MiB", resident>>20, memoryBound>>20)
	if resident > memoryBound {
		t.Errorf("the server used %d MiB, bound %d MiB", resident>>20, memoryBound>>20)
	}
	t.Log(refusals(t, s))
}

// startBuilt builds the server and starts it.
func startBuilt(t *testing.T) *Server {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, "pillion-server")
	if text, err := exec.Command("go", "build", "-o", program, "pillion.dev/cmd/pillion-server").CombinedOutput(); err != nil {
		t.Fatalf("build server: %v: %s", err, text)
	}
	config := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(config, []byte("memory_bytes: 256MiB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := StartServer(program, filepath.Join(folder, "data"), "", "--config", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func joinAll(t *testing.T, n int, join func(int) error) {
	t.Helper()
	turns := make(chan struct{}, joinAtOnce)
	errs := make(chan error, n)
	for i := range n {
		go func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			errs <- join(i)
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

// lease gives every host a task with a lease, and waits until all have one.
func lease(t *testing.T, s *Server, hosts []*Host, names []string) {
	t.Helper()
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{Spec: &pillionv1.SessionSpec{
		Name: "all", Sources: names[:5], Destinations: names[5:10], Routers: names,
	}})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "agents without a lease", func() (left int) {
		for _, h := range hosts {
			if h.Silence() == 0 {
				left++
			}
		}
		return left
	})
}

// wait waits until nothing is left, for as long as it becomes less.
func wait(t *testing.T, what string, count func() int) {
	t.Helper()
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	least, end := count(), time.Now().Add(hang.Limit)
	for left := least; left > 0; left = count() {
		if left < least {
			least, end = left, time.Now().Add(hang.Limit)
		}
		if time.Now().After(end) {
			t.Fatalf("still %d %s", left, what)
		}
		<-ticks.C
	}
}

// watch returns the largest resident memory until the context ends.
func watch(ctx context.Context, s *Server) (largest int64) {
	ticks := time.NewTicker(200 * time.Millisecond)
	defer ticks.Stop()
	for {
		if now, err := s.Resident(); err == nil {
			largest = max(largest, now)
		}
		select {
		case <-ctx.Done():
			return largest
		case <-ticks.C:
		}
	}
}

// account waits until all rows are delivered, and compares the archive with the ledgers.
func account(t *testing.T, s *Server, hosts []*Host) {
	t.Helper()
	wait(t, "batches to deliver", func() (left int) {
		for _, h := range hosts {
			left += int(h.Sending.State().Batches)
		}
		return left
	})
	worst := time.Duration(0)
	for _, h := range hosts {
		worst = max(worst, h.Silence())
	}
	t.Logf("longest time between two heartbeats: %v; the default lease is 10 s", worst.Round(time.Millisecond))
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	number := func(sql string) int64 {
		t.Helper()
		n, err := Number(t.Context(), client, sql)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	total := int64(0)
	for _, h := range hosts {
		total += h.Sent()
		if dropped := h.Sending.State().DroppedRows; dropped > 0 {
			t.Errorf("%s dropped %d rows", h.Name, dropped)
		}
	}
	t.Logf("%d rows of %d agents", total, len(hosts))
	// Of each 32 numbers the different ones are bits of a word: DISTINCT of 100,000 takes much of what a query may have.
	const words = "SELECT agent, count(*) AS n, bit_count(bit_or(1::BIGINT << (memory_used_bytes % 32)::BIGINT)) AS kinds, " +
		"max(memory_used_bytes)::BIGINT AS last FROM host WHERE agent LIKE 'good-%' GROUP BY agent, memory_used_bytes // 32"
	const each = "SELECT agent, sum(n) AS n, sum(kinds) AS kinds, max(last) AS last FROM (" + words + ") GROUP BY agent"
	if n := number("SELECT sum(n)::BIGINT FROM (" + each + ")"); n != total {
		t.Errorf("%d rows are stored, %d were sent", n, total)
	}
	if n := number("SELECT count(*) FROM (" + each + ") WHERE n <> kinds OR n <> last"); n != 0 {
		t.Errorf("rows of %d agents are missing or stored twice", n)
	}
	t.Logf("%d times contact with an honest agent was lost", number("SELECT count(*) FROM events WHERE kind = 'agent-lost' AND about LIKE 'good-%'"))
	if n := number("SELECT count(*) FROM events WHERE kind = 'quota-reached' AND about LIKE 'evil-%'"); n == 0 {
		t.Error("no event names a hostile agent")
	}
}

// busAddress is that of the bus, which the server's log names.
func busAddress(t *testing.T, s *Server) string {
	text, err := os.ReadFile(s.Folder + ".log")
	if err != nil {
		t.Error(err)
		return ""
	}
	_, after, _ := strings.Cut(string(text), "bus for agents at ")
	address, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(address)
}

// refusals are the counts of the server's metrics.
func refusals(t *testing.T, s *Server) string {
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var text strings.Builder
	for _, kind := range []string{"quota-reached", "data-refused", "agent-refused"} {
		n, err := Number(t.Context(), client, "SELECT count(*) FROM events WHERE kind = '"+kind+"'")
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&text, "%d events %s; ", n, kind)
	}
	return text.String()
}
