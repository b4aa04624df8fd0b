//go:build long

package lab_test

import (
	"strings"
	"testing"
)

// TestLongSessionMesh: a session between all agents includes those that join and drops those
// that leave, and one by labels follows the labels, on the same interfaces.
func TestLongSessionMesh(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, star)
	b.running("all", "--from", "*", "--to", "*", "--trace=-1s", "--interval", "200ms", "--lease", "2s")
	b.paired("all", mesh("a", "b", "c")...)
	fourth := b.join("d")
	b.paired("all", mesh("a", "b", "c", "d")...)

	for host, site := range map[string]string{"a": "north", "b": "north", "c": "south", "d": "south"} {
		b.pillion("agents", "label", host, "site="+site)
	}
	b.running("sites", "--from", "site=north", "--to", "site=south", "--both", "--trace=-1s", "--by", "host", "--lease", "2s")
	across := []string{"a>c", "a>d", "b>c", "b>d", "c>a", "c>b", "d>a", "d>b"}
	b.paired("sites", across...)
	if said := b.pillion("agents", "--label", "site=south", "-o", "csv"); !containsAll(said, "\nc,", "\nd,") || strings.Contains(said, "\na,") {
		t.Errorf("agents of a label are %s", said)
	}

	b.talks(9000, mesh("a", "b", "c", "d"))
	for host := range starHosts {
		marked := b.arrived(host)
		if marked.Offered != 3*talk {
			t.Errorf("%d packets to %s were marked, want %d", marked.Offered, host, 3*talk)
		}
		b.reaches(int64(marked.Delivered), "SELECT sum(packets) FROM flows WHERE session = 'all' AND agent = '%s'", host)
		b.reaches(2*talk, "SELECT sum(packets) FROM flows WHERE session = 'sites' AND agent = '%s'", host)
	}
	b.reaches(12, "SELECT count(DISTINCT (source, agent)) FROM flows WHERE session = 'all' AND packets > 0")
	b.reaches(8, "SELECT count(DISTINCT (source, agent)) FROM flows WHERE session = 'sites' AND packets > 0")

	b.pillion("agents", "label", "b", "site-")
	b.paired("sites", "a>c", "a>d", "c>a", "d>a")

	fourth.kill()
	b.becomes("all", "degraded")
	b.pillion("agents", "revoke", "d")
	b.paired("all", mesh("a", "b", "c")...)
	b.paired("sites", "a>c", "c>a")
	eventually(t, "d to be forgotten", func() bool {
		_, err := b.tryPillion("agents", "delete", "d")
		return err == nil
	})
	before := b.arrived("d").Offered
	b.talks(9100, append(mesh("a", "b", "c"), "a>d"))
	if after := b.arrived("d").Offered; after != before {
		t.Errorf("%d packets to the host that left were marked", after-before)
	}
	b.reaches(int64(b.arrived("a").Delivered), "SELECT sum(packets) FROM flows WHERE session = 'all' AND agent = 'a'")
}
