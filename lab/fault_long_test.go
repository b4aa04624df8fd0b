//go:build long

package lab_test

import (
	"os"
	"strings"
	"testing"
)

// TestLongAgentDiskFull: batches wait in memory; what a full spool drops is counted.
func TestLongAgentDiskFull(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	b.kill("agent-b")
	folder := b.onSmallDisk("agent-b", 2<<20)
	b.start("agent-b", "--interval", "1h", "--spool", "300000")
	s := b.recording("--interval", "1h") // so that all rows are packets
	earlier := int64(0)
	eventually(t, "first rows to come", func() bool {
		a, err := b.account("b")
		if err != nil || a.Batches != 0 || a.SentRows == 0 {
			return false
		}
		rows, err := b.tryNumber(rowsOf, "b")
		earlier = rows - a.SentRows
		return err == nil && earlier >= 0
	})
	ballast := b.fill(folder)
	s.send(1000, 1000)
	b.says("agent-b", "batches are held in memory")
	b.reaches(int64(b.marked(s).Delivered+b.marked(s).Duplicated), "SELECT sum(packets) FROM packets")
	eventually(t, "event of the full disk", func() bool {
		n, err := b.tryNumber("SELECT count(*) FROM events WHERE kind = 'spool-disk' AND about = 'b'")
		return err == nil && n == 1
	})
	b.cut(true)
	s.send(1000, 1000)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	b.says("agent-b", "writing to disk works again")
	s.send(6000, 2000)
	b.says("agent-b", "spool is full")
	b.resting("agent-b")
	b.cut(false)
	truth := b.concluded(s)
	came := int64(truth.Delivered + truth.Duplicated)
	var a account
	var stored int64
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last account of b: %+v, %d packets stored of %d", a, stored, came)
		}
	})
	eventually(t, "stored and dropped rows to be all", func() bool {
		var err, err2 error
		a, err = b.account("b")
		stored, err2 = b.tryNumber("SELECT count(*) FROM packets")
		return err == nil && err2 == nil && a.Batches == 0 && a.DroppedRows > 0 && a.DroppedRows+stored >= came && stored <= came
	})
	// Batches sent while the network was cut may arrive after they were dropped and counted.
	if rows := b.number(rowsOf, "b") - earlier; rows < a.SentRows || rows > a.SentRows+a.DroppedRows {
		t.Errorf("%d rows are stored, %d were sent and %d dropped", rows, a.SentRows, a.DroppedRows)
	}
	b.atLeast(1, "SELECT count(*) FROM events WHERE kind = 'spool-dropped' AND about = 'b'")
}

// TestLongServerDiskFull: the server reports it, agents keep what it cannot store, and it
// resumes when there is space.
func TestLongServerDiskFull(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	b.kill("server")
	folder := b.onSmallDisk("server", 192<<20)
	b.start("server")
	s := b.recording()
	s.send(1000, 1000)
	b.reaches(int64(b.marked(s).Delivered+b.marked(s).Duplicated), "SELECT sum(packets) FROM packets")
	if said, err := b.tryPillion("health"); err != nil {
		t.Errorf("health before: %v\n%s", err, said)
	}
	ballast := b.fill(folder)
	s.send(5000, 1000)
	eventually(t, "health to tell", func() bool {
		said, err := b.tryPillion("health")
		return err != nil && strings.Contains(said, "0 MiB free") && strings.Contains(said, "archive cannot write")
	})
	b.says("server", "archive cannot write")
	if said, err := b.tryPillion("agents", "label", "b", "site=x"); err == nil || !strings.Contains(said, "the server's disk is full") {
		t.Errorf("label with a full disk: %v\n%s", err, said)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	b.bothAgree(b.concluded(s))
	eventually(t, "health to be well", func() bool {
		_, err := b.tryPillion("health")
		return err == nil
	})
	b.pillion("agents", "label", "b", "site=y")
	for _, agent := range []string{"a", "b"} {
		if a := b.balances(agent, 0); a.DroppedRows != 0 {
			t.Errorf("%s dropped %d rows", agent, a.DroppedRows)
		}
	}
}

// TestLongAgentKilled: records that it had read arrive once; packets during its absence are
// missing as one gap in the sequence numbers.
func TestLongAgentKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, calmHosts)
	s := b.recording()
	s.send(1000, 2000)
	b.reaches(int64(b.marked(s).Delivered), "SELECT sum(packets) FROM packets")
	b.cut(true)
	s.send(3000, 2000)
	known := b.marked(s).Delivered
	b.resting("agent-b")
	b.kill("agent-b")
	s.send(500, 2000)
	missing := b.marked(s).Delivered - known
	b.cut(false)
	b.start("agent-b")
	b.reaches(int64(known), "SELECT sum(packets) FROM packets")
	eventually(t, "packets to be read again", func() bool {
		s.send(1, 1000)
		n, err := b.tryNumber("SELECT count(*) FROM packets")
		return err == nil && n > int64(known)
	})
	probes := b.marked(s).Delivered - known - missing
	s.send(1000, 2000)
	total := int64(b.marked(s).Delivered)
	if missing != 500 {
		t.Fatalf("%d packets were marked without a reader", missing)
	}
	eventually(t, "last packet to be stored", func() bool {
		n, err := b.tryNumber("SELECT max(sequence) - min(sequence) + 1 FROM packets")
		return err == nil && n == total
	})
	stored := b.number("SELECT count(*) FROM packets")
	if gap := total - stored; gap < int64(missing) || gap >= int64(missing+probes) {
		t.Errorf("%d packets are missing, want %d and less than %d more", gap, missing, probes)
	}
	jumps := "SELECT count(*) FROM (SELECT sequence - lag(sequence) OVER (ORDER BY sequence) AS d FROM packets) WHERE d <> 1"
	if n := b.number("%s", jumps); n != 1 {
		t.Errorf("the sequence numbers have %d gaps, want one: a row is missing or duplicated", n)
	}
	b.reaches(stored, "SELECT sum(packets) FROM flows")
	b.says("server", "lost contact with b")
}

// TestLongServerKilled: stored batches are kept, others retransmitted, and none is stored twice.
func TestLongServerKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	s := b.recording()
	stop := s.traffic(1000)
	last := int64(0)
	for range 10 {
		eventually(t, "packets to be stored", func() bool {
			n, err := b.tryNumber("SELECT count(*) FROM packets")
			grew := err == nil && n > last
			last = max(last, n)
			return grew
		})
		b.kill("server")
		b.start("server")
	}
	stop()
	b.bothAgree(b.concluded(s))
	for _, agent := range []string{"a", "b"} {
		if a := b.balances(agent, 0); a.DroppedRows != 0 {
			t.Errorf("%s dropped %d rows", agent, a.DroppedRows)
		}
	}
}
