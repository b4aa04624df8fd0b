package web

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

// floodBound is what docs/reference/quotas.md states for the memory of a server that is flooded at its API.
const floodBound = 512 << 20

// flooded is set for TestFloodedServer, to the number of addresses that connections to its second port come from.
const flooded = "PILLION_TEST_FLOODED"

// listening is the first line of TestFloodedServer.
type listening struct{ Local, Remote, Certificate string }

// TestFloodedServer is the server of the other tests here, in a process of its own, until its input ends.
func TestFloodedServer(t *testing.T) {
	sources, err := strconv.Atoi(os.Getenv(flooded))
	if err != nil {
		return
	}
	s := newSite(t, func(o *Options) {
		o.Exceeded = func(source string, err error) { fmt.Printf("exceeded %s: %v\n", source, err) }
	})
	remote := s.serveAs(t, func(l net.Listener) net.Listener { return &manyListener{Listener: l, sources: uint32(sources)} })
	line, err := json.Marshal(listening{s.addr, remote, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.signer.Certificate[0]}))})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("listening %s\n", line)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// manyListener makes connections appear to come from 192.0.2.1 and further addresses in turn.
type manyListener struct {
	net.Listener
	sources uint32
	n       atomic.Uint32
}

type addressedConn struct {
	net.Conn
	address netip.AddrPort
}

func (l *manyListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	last := byte(1 + (l.n.Add(1)-1)%l.sources)
	return addressedConn{conn, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, last}), 1234)}, err
}

func (c addressedConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.address) }

// victim is a process with TestFloodedServer.
type victim struct {
	*site
	remote   string
	pid      int
	exceeded exceeding
	slowest  time.Duration // of the answers on loopback
}

func startVictim(t *testing.T, sources int) *victim {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(program, "-test.run=^TestFloodedServer$")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", flooded, sources))
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	v := &victim{site: newSite(t), pid: child.Process.Pid}
	lines, read := bufio.NewScanner(output), make(chan struct{})
	var first listening
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			if err := json.Unmarshal([]byte(text), &first); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	v.addr, v.remote = first.Local, first.Remote
	v.roots.AppendCertsFromPEM([]byte(first.Certificate))
	go func() {
		defer close(read)
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "exceeded "); ok {
				source, why, _ := strings.Cut(text, ": ")
				v.exceeded.add(source, fmt.Errorf("%s", why))
			}
		}
	}()
	t.Cleanup(func() {
		input.Close()
		<-read
		if err := child.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	return v
}

// peak is the largest resident memory so far.
func (v *victim) peak(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// flood opens connections, of which as many stay open, with a request each, until so many bytes of bodies that do not
// end have been sent. What the server refuses is part of it.
func (v *victim) flood(t *testing.T, connections, body, bytes int, token string) {
	t.Helper()
	procedure := "EnrolService/Enrol"
	if token != "" {
		procedure, token = "DataService/ListStreams", "Authorization: Bearer "+token+"\r\n"
	}
	open := make([]*tls.Conn, connections)
	defer func() {
		for _, conn := range open {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	text := strings.Repeat(" ", body)
	for i, sent := 0, 0; i < connections || sent < bytes; i++ {
		if old := open[i%connections]; old != nil {
			old.Close()
			open[i%connections] = nil
		}
		conn, err := tls.Dial("tcp", v.remote, &tls.Config{RootCAs: v.roots, NextProtos: []string{"http/1.1"}})
		if err != nil {
			continue // it may be closed at once
		}
		open[i%connections] = conn
		conn.SetDeadline(time.Now().Add(hang.Limit))
		fmt.Fprintf(conn, "POST /pillion.v1.ServerService/WhoAmI HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n%s\r\n{}", token)
		if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
		}
		n, _ := fmt.Fprintf(conn, "POST /pillion.v1.%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
			procedure, body+1, token, text)
		if sent += max(n, 1<<10); i%256 == 0 {
			v.answers(t)
		}
	}
	v.answers(t)
}

// answers checks that an administrator on loopback is served, by a connection that ends with the call as a command's does.
func (v *victim) answers(t *testing.T) {
	t.Helper()
	client, url := v.client(t, "tls1")
	defer client.CloseIdleConnections()
	request, err := http.NewRequest("POST", url+"/pillion.v1.ServerService/WhoAmI", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer admin")
	asked := time.Now()
	if status, body := do(t, client, request); status != http.StatusOK || !strings.Contains(body, "the-admin") {
		t.Fatalf("on loopback: got %d %s", status, body)
	}
	v.slowest = max(v.slowest, time.Since(asked))
}

func floodAPI(t *testing.T, connections, bytes, sources int) {
	for _, test := range []struct {
		name, token string
		body        int
	}{{"without a token", "", unauthenticatedBodyBytes - 1}, {"viewer", "viewer", bodyBytes - 1}} {
		t.Run(fmt.Sprintf("%s, %d sources", test.name, sources), func(t *testing.T) {
			v := startVictim(t, sources)
			before := v.peak(t)
			v.flood(t, connections, test.body, bytes, test.token)
			peak := v.peak(t)
			t.Logf("resident memory: %d MiB before, %d MiB at most; answered on loopback after %v at most", before>>20, peak>>20, v.slowest)
			if peak > floodBound {
				t.Errorf("%d MiB of memory, want at most %d", peak>>20, floodBound>>20)
			}
			eventually(t, "the event names the source", func() bool { return v.exceeded.has("address 192.0.2.1", "quotas.") })
		})
	}
}

// floodStreams opens streams of HTTP/2 without a token, with bodies that do not end, and answers that are not accepted.
func floodStreams(t *testing.T, connections int) {
	v := startVictim(t, 1)
	remote := &site{addr: v.remote, roots: v.roots}
	for range connections {
		streams := newStalledStreams(t, remote)
		for range 90 {
			streams.post("/pillion.v1.EnrolService/Enrol", make([]byte, 700)) // of all 90, what a connection can send at first
		}
	}
	v.answers(t)
	peak := v.peak(t)
	t.Logf("resident memory: %d MiB at most", peak>>20)
	if peak > floodBound {
		t.Errorf("%d MiB of memory, want at most %d", peak>>20, floodBound>>20)
	}
	eventually(t, "the event names the source", func() bool { return v.exceeded.has("address 192.0.2.1", "quotas.request_bytes") })
}

// TestStreamsWithoutATokenAreBounded: the streams of one address.
func TestStreamsWithoutATokenAreBounded(t *testing.T) { floodStreams(t, 10) }

// TestOneAddressDoesNotHoldTheAPI: neither its connections nor what it sends keep others from being served.
func TestOneAddressDoesNotHoldTheAPI(t *testing.T) { floodAPI(t, 280, 20<<20, 1) }
