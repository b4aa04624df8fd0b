package lab_test

import (
	"bufio"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"
)

// capture is a file of the frames on a device, as they are on the link.
type capture struct {
	t       testing.TB
	name    string
	socket  int
	stop    chan struct{}
	stopped chan error
}

// capture begins to write what comes and goes on a device of a host.
func (b *bed) capture(t testing.TB, host, device string) *capture {
	t.Helper()
	c := &capture{t: t, name: filepath.Join(t.TempDir(), "frames.pcap"), stop: make(chan struct{}), stopped: make(chan error, 1)}
	all := int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})) // in network byte order
	b.do(host, func() (err error) {
		if c.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		index, err := indexOf(device)
		if err != nil {
			return err
		}
		_ = unix.SetsockoptInt(c.socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		_ = unix.SetsockoptTimeval(c.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
		return unix.Bind(c.socket, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: index})
	})
	t.Cleanup(func() { unix.Close(c.socket) })
	go func() { c.stopped <- c.write() }()
	return c
}

func (c *capture) write() error {
	file, err := os.Create(c.name)
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewWriter(file)
	w := pcapgo.NewWriter(buffered)
	frame := make([]byte, 1<<17)
	err = w.WriteFileHeader(uint32(len(frame)), layers.LinkTypeEthernet)
	for err == nil {
		n, _, failed := unix.Recvfrom(c.socket, frame, 0)
		switch {
		case failed == unix.EINTR:
		case failed == unix.EAGAIN: // nothing more comes
			select {
			case <-c.stop:
				return buffered.Flush()
			default:
			}
		case failed != nil:
			err = failed
		default:
			err = w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: n, Length: n}, frame[:n])
		}
	}
	return err
}

// dissected ends the capture. It returns how many packets have a mark of each encoding, and fails for each that
// Wireshark calls malformed, with Pillion's dissector and without.
func (c *capture) dissected() map[string]int {
	c.t.Helper()
	close(c.stop)
	if err := <-c.stopped; err != nil {
		c.t.Fatal(err)
	}
	for _, line := range c.tshark("-Y", "_ws.malformed") {
		c.t.Errorf("without the dissector: %s", line)
	}
	const dissector = "lua_script:../wire/pillion.lua"
	for _, line := range c.tshark("-X", dissector, "-Y", "_ws.malformed || _ws.lua.error || pillion.malformed") {
		c.t.Errorf("with the dissector: %s", line)
	}
	encodings := map[string]int{}
	for _, encoding := range c.tshark("-X", dissector, "-Y", "pillion.encoding", "-T", "fields", "-e", "pillion.encoding", "-E", "occurrence=l") {
		encodings[encoding]++
	}
	return encodings
}

// tshark returns the lines that tshark prints of the capture.
func (c *capture) tshark(options ...string) []string {
	c.t.Helper()
	for _, protocol := range guessed(c.t) {
		options = append(options, "--disable-protocol", protocol)
	}
	return tshark(c.t, append([]string{"-n", "-r", c.name}, options...)...)
}

// tshark runs it without the user's preferences, and returns the lines that it prints.
func tshark(t testing.TB, options ...string) []string {
	t.Helper()
	run := exec.Command("tshark", options...)
	home := t.TempDir()
	run.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "LC_ALL=C")
	var errors strings.Builder
	run.Stderr = &errors
	out, err := run.Output()
	if err != nil || strings.Contains(errors.String(), "Lua") {
		t.Fatalf("run %s: %v\n%s", run, err, errors.String())
	}
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// guessed returns the protocols that Wireshark takes the content of a packet for because of a port that the kernel may have
// chosen at random, for instance TZSP of 37008. Such content is malformed without any fault of a mark.
func guessed(t testing.TB) []string {
	t.Helper()
	const firstEphemeral = 32768 // ip_local_port_range of Linux
	var protocols []string
	for _, line := range tshark(t, "-G", "decodes") { // table of dissectors, number, protocol
		field := strings.Split(line, "\t")
		if len(field) != 3 || field[0] != "udp.port" && field[0] != "tcp.port" {
			continue
		}
		if port, err := strconv.Atoi(field[1]); err == nil && port >= firstEphemeral {
			protocols = append(protocols, field[2])
		}
	}
	slices.Sort(protocols)
	return slices.Compact(protocols)
}
