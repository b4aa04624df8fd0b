package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"pillion.dev/internal/free"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/client"
)

// TestFilteredApplications: what an application reports goes through the filters of its
// agent, which chain, and replace the tuples.
func TestFilteredApplications(t *testing.T) {
	n := &noc{folder: filepath.Join(t.TempDir(), "noc"), http: free.Address(t), bus: free.Address(t)}
	n.begin(t)
	config := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(config, []byte(`streams:
  - {name: throughput, domain: trial, point: iperf_packets, filters: [sum(packet_size)], every: 1s, replace: true}
  - {name: throughput_by_minute, point: throughput, filters: [avg(packet_size_sum), count()], every: 1m}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, n, "north", "--config", config)
	for _, domain := range []string{"trial", "other"} {
		c, err := client.New(client.Options{Address: h.oml, Domain: domain, Sender: "me", App: "iperf", Pause: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Point("packets", omsp.Field{Name: "packet_size", Type: omsp.Int32})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now().Truncate(time.Minute)
		for i := range int32(40) { // of 10 s
			values := make([]omsp.Value, 1)
			values[0].SetInt(omsp.Int32, int64(i))
			if err := p.InjectAt(begun.Add(time.Duration(i)*250*time.Millisecond), values); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the average of the sums is in the archive", func() bool { return n.number(t, "SELECT count(*) FROM throughput_by_minute") == 1 })
	// 40 tuples of 0..39 in 10 seconds: 780 in all, 78 a second.
	for sql, want := range map[string]int64{
		"SELECT CAST(packet_size_sum_avg AS BIGINT) FROM throughput_by_minute WHERE oml_domain = 'trial' AND oml_sender = 'me'": 78,
		"SELECT CAST(count AS BIGINT) FROM throughput_by_minute":                                                                10,
		"SELECT count(*) FROM throughput WHERE agent = 'north'":                                                                 10,
		"SELECT count(*) FROM oml_other_iperf_packets":                                                                          40,
		"SELECT count(*) FROM information_schema.tables WHERE table_name = 'oml_trial_iperf_packets'":                           0,
	} {
		until(t, sql, func() bool { return n.number(t, sql) == want })
	}
}
