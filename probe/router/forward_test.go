package router

import (
	"testing"
	"time"
)

// sendEach sends n payloads and waits for each to arrive.
func sendEach(t *testing.T, r *rig, address string, n, length int) {
	t.Helper()
	server, client := r.listen(address), r.dial(address)
	defer server.Close()
	defer client.Close()
	payload, buffer := make([]byte, length), make([]byte, 65536)
	server.SetReadDeadline(time.Now().Add(patience))
	for range n {
		if _, err := client.Write(payload); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(buffer); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForwardedPacketsAreCountedExactly(t *testing.T) {
	for name, address := range map[string]string{"ipv4": "10.9.2.2:9", "ipv6": "[fd09:2::2]:9"} {
		t.Run(name, func(t *testing.T) {
			r := build(t)
			sendEach(t, r, address, 1, 100) // neighbours are found
			profile := r.profile(Options{Match: Match{Protocol: 17, DestinationPort: 9}})
			const n, length = 500, 100
			sendEach(t, r, address, n, length)
			s := settled(t, profile)
			r.closes(s.Account)
			forwarded := n - r.hidden(s.Account, n)
			if s.Account.Forwarded != forwarded {
				t.Errorf("seen %d, forwarded %d, want %d", s.Account.Seen, s.Account.Forwarded, forwarded)
			}
			p := pair(t, s, "in0", "in1")
			header := uint64(28)
			if name == "ipv6" {
				header = 48
			}
			if p.Packets != forwarded || p.Bytes != forwarded*(length+header) {
				t.Errorf("%d packets of %d bytes, want %d of %d", p.Packets, p.Bytes, forwarded, forwarded*(length+header))
			}
			for stage, d := range p.Stages[:Hold] {
				t.Logf("stage %d: %d, mean %.0f ns, median %.0f, %d to %d", stage, d.Count, d.Mean(), d.Quantile(0.5), d.MinNs, d.MaxNs)
				want := forwarded
				if Stage(stage) == InputQueuing || Stage(stage) == Transit {
					want -= s.Account.NoArrival
				}
				if d.Count != want || d.MinNs == 0 || d.MaxNs < d.MinNs {
					t.Errorf("stage %d: %d times from %d to %d ns", stage, d.Count, d.MinNs, d.MaxNs)
				}
			}
		})
	}
}

// A bridge or macvlan has no queue of its own: the packet leaves by what is below.
func TestStackedInterfaces(t *testing.T) {
	for name, stack := range map[string]func(r *rig){
		"bridge": func(r *rig) {
			r.run(r.router, "ip", "link", "add", "top", "type", "bridge")
			r.run(r.router, "ip", "link", "set", "in1", "master", "top")
		},
		"macvlan": func(r *rig) {
			r.run(r.router, "ip", "link", "add", "top", "link", "in1", "type", "macvlan", "mode", "bridge")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := build(t)
			r.run(r.router, "ip", "addr", "flush", "dev", "in1")
			stack(r)
			r.run(r.router, "ip", "addr", "add", "10.9.2.1/24", "dev", "top")
			r.run(r.router, "ip", "link", "set", "top", "up")
			r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "10mbit", "burst", "3000", "limit", "3000000")
			server := r.listen("10.9.2.2:8")
			r.run(r.right, "ip", "neigh", "flush", "dev", "out")
			r.reach(server, "10.9.2.2:8")
			profile := r.profile(Options{Match: Match{Protocol: 17, DestinationPort: 9}})
			began := time.Now()
			r.flood("10.9.2.2:9", 200, 300)
			took := time.Since(began)
			s := settled(t, profile)
			r.closes(s.Account)
			p := pair(t, s, "in0", "top")
			if missed := r.hidden(s.Account, 200); p.Packets+missed != 200 || s.Account.Forwarded != p.Packets {
				t.Errorf("%d packets, %d forwarded, %d missed, want 200", p.Packets, s.Account.Forwarded, missed)
			}
			// The last packet waits for what the bucket has not passed while they were sent.
			drain := time.Duration(200*(300+42)-3000) * 8 * time.Second / 10e6
			if wait := time.Duration(p.Stages[OutputQueuing].MaxNs); s.Account.Lost == 0 && wait < drain-took {
				t.Errorf("at most %v in the queue, want at least %v - %v", wait, drain, took)
			}
		})
	}
}
