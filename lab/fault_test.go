package lab_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/lab/emulator"
)

// calmHosts is twoHosts with a link that only delays.
const calmHosts = `
hosts: {a: {}, b: {}, r: {forward: true}, noc: {}}
links:
  - {ends: [a, b], emulate: {seed: 3, delay: 5ms, queue: 4000}}
  - {ends: [a, r]}
  - {ends: [b, r]}
  - {ends: [r, noc]}
service: {server: noc, agents: [a, b]}
`

// recording runs a session whose source keeps marking for minutes without the server, with
// a row for each packet, and returns a flow for it.
func (b *serviceBed) recording(more ...string) *stream {
	b.t.Helper()
	b.running("fault", append([]string{"--from", "a", "--to", "b", "--records", "--lease", "4m"}, more...)...)
	return b.open("a", "b", netip.AddrPortFrom(secondIPv4, 9000))
}

// traffic sends continuously until stop is called.
func (s *stream) traffic(rate int) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pace := time.NewTicker(time.Second / time.Duration(rate))
		defer pace.Stop()
		payload := make([]byte, 56)
		for {
			select {
			case <-ending:
				return
			case <-pace.C:
			}
			if _, err := s.out.Write(payload); err != nil {
				s.t.Errorf("send packet: %v", err)
				return
			}
			s.next++
		}
	}()
	stop = sync.OnceFunc(func() {
		close(ending)
		<-ended
	})
	s.t.Cleanup(stop)
	return stop
}

// marked returns the truth of marked packets, once none is in flight.
func (b *serviceBed) marked(s *stream) emulator.Tally {
	b.t.Helper()
	return b.settled("a-b", "a", s.next).Marked
}

// concluded makes the link calm, sends a last marked packet, which reveals earlier losses,
// and returns the truth of marked packets.
func (b *serviceBed) concluded(s *stream) emulator.Tally {
	b.t.Helper()
	b.marked(s)
	calm := emulator.Calm()
	change := emulator.Change{Loss: calm.Loss, Duplicate: calm.Duplicate, Reorder: calm.Reorder}
	if err := b.Change(b.t.Context(), "a-b", "a", change); err != nil {
		b.t.Fatal(err)
	}
	before := b.truth("a-b", "a").Marked.Offered
	eventually(b.t, "packets to be marked", func() bool {
		s.send(1, 1000)
		return b.truth("a-b", "a").Marked.Offered > before
	})
	return b.marked(s)
}

// bothAgree compares both streams of the session with the truth of the link.
func (b *serviceBed) bothAgree(truth emulator.Tally) {
	b.t.Helper()
	b.reaches(int64(truth.Delivered+truth.Duplicated), "SELECT sum(packets) FROM packets")
	b.agrees(truth, "true")
}

// account has an agent's spool counters since it started.
type account struct{ Batches, SentRows, DroppedRows int64 }

func (b *serviceBed) account(agent string) (account, error) {
	output, err := b.tryPillion("agents", "show", agent, "-o", "json")
	if err != nil {
		return account{}, fmt.Errorf("%w: %s", err, output)
	}
	var shown struct {
		Spool struct {
			Batches     json.Number `json:"batches"`
			SentRows    json.Number `json:"sent_rows"`
			DroppedRows json.Number `json:"dropped_rows"`
		}
	}
	if err := json.Unmarshal([]byte(output), &shown); err != nil {
		return account{}, fmt.Errorf("%w: %s", err, output)
	}
	batches, _ := shown.Spool.Batches.Int64()
	sent, _ := shown.Spool.SentRows.Int64()
	dropped, _ := shown.Spool.DroppedRows.Int64()
	return account{batches, sent, dropped}, nil
}

// rowsOf returns the number of an agent's rows in the archive.
const rowsOf = `SELECT sum(n) FROM (SELECT count(*) AS n FROM flows WHERE agent = '%[1]s'
UNION ALL SELECT count(*) FROM packets WHERE agent = '%[1]s' UNION ALL SELECT count(*) FROM clock WHERE agent = '%[1]s'
UNION ALL SELECT count(*) FROM host WHERE agent = '%[1]s' UNION ALL SELECT count(*) FROM interfaces WHERE agent = '%[1]s'
UNION ALL SELECT count(*) FROM agent WHERE agent = '%[1]s' UNION ALL SELECT count(*) FROM hops WHERE agent = '%[1]s'
UNION ALL SELECT count(*) FROM sent_flows WHERE agent = '%[1]s')`

// balances waits until the spool of an agent is empty, and it has sent as many rows as
// were stored in addition to earlier ones.
func (b *serviceBed) balances(agent string, earlier int64) account {
	b.t.Helper()
	var a account
	var stored int64
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("last account of %s: %+v, stored %d and %d before", agent, a, stored, earlier)
		}
	})
	eventually(b.t, "account of "+agent+" to balance", func() bool {
		var err error
		if a, err = b.account(agent); err != nil || a.Batches != 0 {
			return false
		}
		stored, err = b.tryNumber(rowsOf, agent)
		return err == nil && stored-earlier == a.SentRows
	})
	return a
}

// cut drops all packets between the server and the agents, as a failed router would, or
// restores the path. The path between the agents is not affected.
func (b *serviceBed) cut(yes bool) {
	b.t.Helper()
	b.do("r", func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte(map[bool]string{true: "0", false: "1"}[yes]), 0)
	})
}

func (b *serviceBed) kill(name string) {
	b.t.Helper()
	if err := b.KillService(name); err != nil {
		b.t.Fatal(err)
	}
}

func (b *serviceBed) start(name string, more ...string) {
	b.t.Helper()
	if err := b.StartService(b.t.Context(), name, more...); err != nil {
		b.t.Fatal(err)
	}
}

// says waits for a text in a log.
func (b *serviceBed) says(name, words string) {
	b.t.Helper()
	eventually(b.t, name+" to say "+words, func() bool {
		return strings.Contains(b.log(name), words)
	})
}

func (b *serviceBed) log(name string) string {
	text, err := os.ReadFile(b.path(name + ".log"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// onSmallDisk moves the data of a stopped program to a separate disk.
func (b *serviceBed) onSmallDisk(name string, bytes int) (folder string) {
	b.t.Helper()
	folder = b.path(name)
	aside := folder + ".aside"
	if err := os.Rename(folder, aside); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := unix.Mount("pillion-test", folder, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		b.kill(name)
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			b.t.Error(err)
		}
	})
	if err := os.Remove(filepath.Join(aside, "backup.socket")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err) // a socket that the killed server left cannot be copied
	}
	if err := os.CopyFS(folder, os.DirFS(aside)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.RemoveAll(aside); err != nil {
		b.t.Fatal(err)
	}
	return folder
}

// fill uses all space on a disk until the ballast is removed.
func (b *serviceBed) fill(folder string) (ballast string) {
	b.t.Helper()
	ballast = filepath.Join(folder, "ballast")
	file, err := os.Create(ballast)
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := file.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return ballast
}

// resting waits until nothing more is written to an agent's spool.
func (b *serviceBed) resting(name string) {
	b.t.Helper()
	began := time.Now()
	eventually(b.t, name+" to rest", func() bool {
		latest := began
		files, _ := filepath.Glob(filepath.Join(b.path(name), "spool", "*.spool"))
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.ModTime().After(latest) {
				latest = info.ModTime()
			}
		}
		return time.Since(latest) > 4*time.Second
	})
}

// TestNetworkCut: an agent without its server continues to measure, and its spool holds
// all rows.
func TestNetworkCut(t *testing.T) {
	t.Parallel() // it mostly waits
	networkCut(t, 2500, "agent-a")
}

// networkCut cuts the network until a number of packets were sent and an agent has noticed
// it: b, which sends more, notices later.
func networkCut(t *testing.T, packets uint64, agent string) {
	b := service(t, twoHosts)
	s := b.recording()
	s.send(1000, 1000)
	b.cut(true)
	s.send(int(packets), 500)
	b.says(agent, "not connected")
	if marked := b.marked(s).Offered; marked < packets {
		t.Errorf("%d packets were marked without the server", marked)
	}
	b.cut(false)
	b.bothAgree(b.concluded(s))
	for _, agent := range []string{"a", "b"} {
		if a := b.balances(agent, 0); a.DroppedRows != 0 {
			t.Errorf("%s dropped %d rows", agent, a.DroppedRows)
		}
	}
}
