package service

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/agent/host"
	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/measure"
)

func TestConfiguredPoints(t *testing.T) {
	for name, test := range map[string]struct{ text, points, fault string }{
		"default":        {"server: noc\n", "host interfaces clock agent", ""},
		"nmetrics":       {"points: [nmetrics, clock]\n", "nmetrics_cpu nmetrics_memory nmetrics_net clock", ""},
		"router":         {"points: [router, clock]\n", "clock", ""},
		"none":           {"points: []\n", "", ""},
		"unknown":        {"points: [weather]\n", "", `point "weather"`},
		"capture":        {"capture: [{device: eth0, filter: udp port 53}, {device: lo}]\n", "host interfaces clock agent", ""},
		"no device":      {"capture: [{filter: udp}]\n", "", "a device"},
		"bad filter":     {"capture: [{device: eth0, filter: udp prot 53}]\n", "", "prot"},
		"bad snap":       {"capture: [{device: eth0, snap: 3}]\n", "", "snapshot length 3"},
		"same device":    {"capture: [{device: eth0}, {device: eth0, filter: tcp}]\n", "", "two captures"},
		"misspelled key": {"capture: [{devise: eth0}]\n", "", "devise"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "agent.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := ReadConfig(path)
			if test.fault != "" {
				if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.fault) {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			points, err := c.hostPoints()
			var names []string
			for _, p := range points {
				names = append(names, p.Name)
			}
			if err != nil || points == nil || strings.Join(names, " ") != test.points {
				t.Errorf("%v, %v", names, err)
			}
		})
	}
}

// shelf counts the rows of streams.
type shelf struct {
	mu   sync.Mutex
	rows map[string]int64
	came chan struct{}
}

func (s *shelf) put(schema *measure.Schema, record arrow.RecordBatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[schema.Name] += record.NumRows()
	select {
	case s.came <- struct{}{}:
	default:
	}
	return nil
}

func (s *shelf) of(stream string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[stream]
}

// TestCaptureOnADevice: headers become rows of the agent's streams, which filters can
// use, with the counters at the end.
func TestCaptureOnADevice(t *testing.T) {
	namespace := namespace.New(t)
	kept := shelf{rows: map[string]int64{}, came: make(chan struct{}, 1)}
	config := Config{HostInterval: time.Hour, Capture: []Capture{{Device: "lo", Filter: "udp dst port 5000"}}}
	log := slog.New(slog.DiscardHandler)
	points := append(capturePoints(config.Capture), host.Nmetrics()...)
	streams, err := openStreams(kept.put, points, []Stream{{Name: "sizes", Point: "pcap_udp", Filters: []string{"avg(bytes)"}, Samples: 1}}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &service{config: config, log: log, streams: streams}
	var capturing sync.WaitGroup
	capturing.Go(func() {
		if err := netns.Do(namespace, func() error { s.captureOn(ctx, config.Capture[0]); return nil }); err != nil {
			t.Error(err)
		}
	})
	var conn net.PacketConn
	if err := netns.Do(namespace, func() (err error) {
		conn, err = net.ListenPacket("udp", "127.0.0.1:5000")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	late := time.NewTimer(20 * time.Second)
	for kept.of("pcap_udp") == 0 { // until the capture has started
		if _, err := conn.WriteTo([]byte("hello"), conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-kept.came:
		case <-time.After(10 * time.Millisecond):
		case <-late.C:
			t.Fatal("no rows")
		}
	}
	cancel()
	capturing.Wait()
	if err := streams.close(); err != nil {
		t.Fatal(err)
	}
	if n := kept.of("pcap_udp"); n != kept.of("pcap_ip") || n != kept.of("pcap_ethernet") || kept.of("sizes") != n || kept.of("pcap_counts") != 1 {
		t.Errorf("%v", kept.rows)
	}
}
