package agent

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// captureFile has datagrams to the ports 1, 2, 3…, and is truncated within the last one if
// requested.
func captureFile(t *testing.T, datagrams int, cut bool) string {
	t.Helper()
	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	if err := w.WriteFileHeader(65536, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	for i := range datagrams {
		ip := layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, 2}}
		udp := layers.UDP{SrcPort: 1000, DstPort: layers.UDPPort(i + 1)}
		packet := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(packet, gopacket.SerializeOptions{FixLengths: true}, &ip, &udp); err != nil {
			t.Fatal(err)
		}
		data := packet.Bytes()
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1700000000, 0), CaptureLength: len(data), Length: len(data)}
		if err := w.WritePacket(info, data); err != nil {
			t.Fatal(err)
		}
	}
	if cut {
		file.Truncate(file.Len() - 28)
	}
	path := filepath.Join(t.TempDir(), "test.pcap")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCaptureToCollector: many more rows than fit into the queue arrive, each once.
func TestCaptureToCollector(t *testing.T) {
	const datagrams = 60_000
	address, received := collector(t)
	c := captureCmd{ReportFlags: agent.ReportFlags{OML: address, OMLDomain: "lab", OMLID: "me"}, Read: captureFile(t, datagrams, false)}
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := <-received
	if ip, udp := strings.Count(text, "\ttest.pcap\t4\t10.0.0.1\t"), strings.Count(text, "\ttest.pcap\t1000\t"); ip != datagrams || udp != datagrams {
		t.Errorf("%d rows of ip, %d of udp, want %d", ip, udp, datagrams)
	}
	if !strings.Contains(text, "\tpackets\t60000 packets = 60000 decoded + 0 partial + 0 skipped;") {
		t.Error("the counts are missing")
	}
}

func TestCaptureOfAFile(t *testing.T) {
	for name, test := range map[string]struct {
		c    captureCmd
		cut  bool
		rows int
		code int
	}{
		"all":     {captureCmd{}, false, 5, 0},
		"filter":  {captureCmd{Filter: "dst portrange 2-3"}, false, 2, 0},
		"count":   {captureCmd{Count: 1}, false, 1, 0},
		"cut":     {captureCmd{}, true, 4, command.ExitUser},
		"mistake": {captureCmd{Filter: "dst prot 2"}, false, 0, command.ExitUser},
		"both":    {captureCmd{Dev: "lo"}, false, 0, command.ExitUser},
		"snap":    {captureCmd{Snap: 1}, false, 0, command.ExitUser},
	} {
		t.Run(name, func(t *testing.T) {
			rows := filepath.Join(t.TempDir(), "rows")
			c := test.c
			c.OML, c.Read = "file:"+rows, captureFile(t, 5, test.cut)
			code := 0
			if err := c.Run(t.Context()); err != nil {
				code = agent.Fail(io.Discard, err)
			}
			text, _ := os.ReadFile(rows)
			if got := strings.Count(string(text), "\ttest.pcap\t1000\t"); got != test.rows || code != test.code {
				t.Errorf("%d rows, code %d; want %d, %d", got, code, test.rows, test.code)
			}
		})
	}
}
