package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/net/bpf"

	"pillion.dev/measure"
)

var expressions = []string{
	"ip", "ip6", "arp", "tcp", "udp", "icmp", "icmp6", "sctp", "host 10.0.0.1", "src host 10.0.0.2", "dst host 10.0.0.2",
	"net 10.0.0.0/8", "src net 10.0.0.0/30", "net 0.0.0.0/0", "host 2001:db8::1", "dst net 2001:db8::/33", "src net 2001:db8::/64",
	"port 53", "src port 53", "dst port 53", "tcp port 80", "udp dst port 40000", "portrange 50-60", "tcp src portrange 80-80",
	"not udp", "! (tcp or udp)", "udp or tcp and port 80", "udp or (tcp and port 80)", "not ip and not ip6", "less 60", "greater 70",
	"ip host 10.0.0.1", "ip6 and udp port 53", "arp host 10.0.0.1", "not port 80", "tcp&&port 80||arp",
}

// frames are Ethernet packets of all kinds, complete and truncated.
func frames(t testing.TB) (all [][]byte) {
	t.Helper()
	for _, whole := range completeFrames(t) {
		all = append(all, whole)
		for _, size := range []int{14, 20, 30, 36, 50} {
			if size < len(whole) {
				all = append(all, whole[:size])
			}
		}
	}
	return all
}

func completeFrames(t testing.TB) (all [][]byte) {
	t.Helper()
	arp := "0001 0800 0604 0001 020000000001 0a000001 000000000000 0a000002"
	for _, text := range []string{
		"0800" + ip4 + udp + payload, "0800" + ip4tcp + tcp + "00000000", "86dd" + ip6 + udp6, "0806" + arp, "8035" + arp,
		"0800" + strings.Replace(ip4, "4000 40", "0010 40", 1) + udp + payload,
		"0800" + strings.Replace(ip4, "40 11", "40 01", 1) + udp + payload, "0800" + strings.Replace(ip4, "40 11", "40 84", 1) + udp + payload,
		"0800" + strings.Replace(ip4, "45b8", "46b8", 1) + "01010101" + udp + payload,
		"0800" + strings.Replace(ip4, "0a000001 0a000002", "0a000002 c0a80001", 1) + udp + payload,
		"86dd" + strings.Replace(ip6, "11 40", "3a 40", 1) + udp6, "86dd" + strings.Replace(ip6, "11 40", "06 40", 1) + tcp,
		"86dd" + strings.Replace(ip6, "11 40", "2c 40", 1) + "1100 0001 0000002a" + udp6,
		"86dd" + strings.Replace(ip6, "0000000000000001 2001", "8000000000000001 2001", 1) + udp6,
		"8100 0064 0800" + ip4 + udp + payload, "0004 4242" + payload,
	} {
		all = append(all, bytesOf(t, macs+text))
	}
	return all
}

func writeFile(t testing.TB, link layers.LinkType, packets [][]byte) string {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	if err := w.WriteFileHeader(65535, link); err != nil {
		t.Fatal(err)
	}
	for i, p := range packets {
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1700000000, int64(i)), CaptureLength: len(p), Length: len(p)}, p); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "test.pcap")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// chosen are the packets that tcpdump keeps, identified by their nanosecond.
func chosen(t *testing.T, path, expression string) map[int]bool {
	t.Helper()
	// Without its optimiser, which changes the result for short packets.
	out, err := exec.Command("tcpdump", "-O", "-n", "--nano", "-tt", "-q", "-r", path, "-w", "-", expression).Output()
	if err != nil {
		t.Fatalf("tcpdump %q: %v", expression, err)
	}
	kept := map[int]bool{}
	order := binary.ByteOrder(binary.LittleEndian)
	for at := 24; at+16 <= len(out); at += 16 + int(order.Uint32(out[at+8:])) {
		kept[int(order.Uint32(out[at+4:]))] = true
	}
	return kept
}

// TestFilterAgainstTcpdump: tcpdump keeps the same packets.
func TestFilterAgainstTcpdump(t *testing.T) {
	if _, err := exec.LookPath("tcpdump"); err != nil {
		t.Skip("no tcpdump to compare with")
	}
	for link, header := range map[layers.LinkType]func(kind []byte) []byte{
		layers.LinkTypeEthernet:  func(kind []byte) []byte { return append(bytesOf(t, macs), kind...) },
		layers.LinkTypeLinuxSLL:  func(kind []byte) []byte { return append(bytesOf(t, "0000 0001 0006 020000000001 0000"), kind...) },
		layers.LinkTypeLinuxSLL2: func(kind []byte) []byte { return append(kind, bytesOf(t, sll2)...) },
	} {
		t.Run(link.String(), func(t *testing.T) {
			packets := frames(t)
			for i, p := range packets {
				packets[i] = append(header(slices.Clone(p[12:14])), p[14:]...)
			}
			againstTcpdump(t, link, packets, expressions)
		})
	}
}

// TestFilterCombinations: operators bind as in tcpdump, however they are nested. What
// either reads beyond the end of a truncated packet depends on more than the operators.
func TestFilterCombinations(t *testing.T) {
	if _, err := exec.LookPath("tcpdump"); err != nil {
		t.Skip("no tcpdump to compare with")
	}
	random := rand.New(rand.NewPCG(7, 33))
	var all []string
	for range 60 {
		all = append(all, combination(random, 3))
	}
	againstTcpdump(t, layers.LinkTypeEthernet, completeFrames(t), all)
}

// combination is a random expression that nests no deeper than depth.
func combination(random *rand.Rand, depth int) string {
	kind := random.IntN(10)
	switch {
	case depth == 0 || kind < 3:
		return expressions[random.IntN(len(expressions))]
	case kind < 5:
		return "not " + combination(random, depth-1)
	case kind == 5:
		return "(" + combination(random, depth-1) + ")"
	}
	operators := []string{" and ", " or ", " && ", " || "}
	return combination(random, depth-1) + operators[random.IntN(len(operators))] + combination(random, depth-1)
}

func againstTcpdump(t *testing.T, link layers.LinkType, packets [][]byte, expressions []string) {
	t.Helper()
	path := writeFile(t, link, packets)
	for _, expression := range expressions {
		f, err := compileFilter(expression, link)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
			continue
		}
		vm, err := bpf.NewVM(f.code)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
			continue
		}
		want := chosen(t, path, expression)
		for i, p := range packets {
			got := f.matches(p, len(p))
			if got != want[i] {
				t.Errorf("%q: packet %d (%x): %v, tcpdump %v", expression, i, p, got, want[i])
			}
			if n, err := vm.Run(p); err != nil || n > 0 != got {
				t.Errorf("%q: packet %d: the machine of x/net/bpf says %d, %v", expression, i, n, err)
			}
		}
	}
}

func TestFilterRejects(t *testing.T) {
	for _, text := range []string{
		"tcp[13] & 2 != 0", "host www.example", "10.0.0.1", "port http", "host", "(tcp", "tcp)", "not", "tcp and", "net 10.0.0.1/8",
		"port 1-2", "portrange 5", "portrange 9-5", "port 65536", "src less 5", "vlan", strings.Repeat("(", 100), "tcp udp",
		"host 10.0.0.1 or 10.0.0.2", "host fe80::1%eth0", strings.Repeat("port 1 and ", 100) + "tcp",
	} {
		if _, err := compileFilter(text, layers.LinkTypeEthernet); !errors.Is(err, ErrFilter) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := compileFilter("tcp", layers.LinkTypeIEEE80211Radio); !errors.Is(err, ErrFilter) {
		t.Error(err)
	}
}

// FuzzFilter: every valid expression compiles, and the kernel's program agrees with ours.
func FuzzFilter(f *testing.F) {
	for _, text := range expressions {
		f.Add(text, []byte(macs))
	}
	f.Fuzz(func(t *testing.T, text string, packet []byte) {
		filter, err := compileFilter(text, layers.LinkTypeEthernet)
		if err != nil || filter == nil {
			return
		}
		if _, err := bpf.Assemble(filter.code); err != nil {
			t.Fatal(err)
		}
		vm, err := bpf.NewVM(filter.code)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := vm.Run(packet); err != nil || n > 0 != filter.matches(packet, len(packet)) {
			t.Fatalf("%q: %d, %v", text, n, err)
		}
	})
}

func TestFile(t *testing.T) {
	path := writeFile(t, layers.LinkTypeEthernet, frames(t))
	for name, test := range map[string]struct {
		o    Options
		want string
	}{
		"all":    {Options{}, "93 packets = 37 decoded + 56 (short 56)"},
		"filter": {Options{Filter: "udp port 53"}, ""},
		"count":  {Options{Count: 3}, "3 packets"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := map[string]int{}
			test.o.File = path
			test.o.Sink = func(schema *measure.Schema, _ measure.Sample) { rows[schema.Name]++ }
			tally, err := Run(t.Context(), test.o)
			if err != nil || !strings.HasPrefix(tally.String(), test.want) {
				t.Errorf("%v, %v: %v", tally, err, rows)
			}
			partial, _ := counted(tally.Partial)
			skipped, _ := counted(tally.Skipped)
			if tally.Seen != tally.Decoded+partial+skipped || test.o.Count == 0 && tally.Seen+tally.Filtered != uint64(len(frames(t))) {
				t.Errorf("the counts of %v are not closed", tally)
			}
			if uint64(rows["pcap_ethernet"]) != tally.Decoded+partial {
				t.Errorf("%d rows of %v", rows["pcap_ethernet"], tally)
			}
		})
	}
}

// TestFileWithoutTimes: packets that a file has no time for are counted.
func TestFileWithoutTimes(t *testing.T) {
	file := bytesOf(t, "0a0d0d0a0000001c1a2b3c4d00010000ffffffffffffffff0000001c"+"0000000100000014006500000000000000000014"+
		"0000000300000028000000c8"+strings.ReplaceAll(ip4tcp, " ", "")+"0050c35000000028")
	c := newCapture(Options{Sink: func(*measure.Schema, measure.Sample) { t.Error("a row without a time") }})
	if err := c.readFrom(t.Context(), bytes.NewReader(file)); err != nil || c.tally.String() != "1 packets = 0 decoded + 0 partial + 1 (time 1) skipped; 0 filtered out, 0 dropped by the kernel, 0 unread" {
		t.Errorf("%v, %v", c.tally, err)
	}
}

// FuzzFile: no file causes a crash.
func FuzzFile(f *testing.F) {
	whole, err := os.ReadFile(writeFile(f, layers.LinkTypeEthernet, frames(f)[:4]))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:70])
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newCapture(Options{Sink: func(*measure.Schema, measure.Sample) {}})
		if err := c.readFrom(context.Background(), bytes.NewReader(data)); err != nil && !errors.Is(err, ErrFile) {
			t.Fatal(err)
		}
	})
}
