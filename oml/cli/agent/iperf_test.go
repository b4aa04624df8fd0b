package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/test/namespace"
)

// collector receives all data of one OMSP client.
func collector(t *testing.T) (address string, received <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	texts := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		texts <- string(text)
	}()
	return listener.Addr().String(), texts
}

// script replaces iperf3.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "iperf3")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func runIperf(ctx context.Context, to, program string, args ...string) error {
	c := iperfCmd{ReportFlags: agent.ReportFlags{OML: to, OMLDomain: "lab", OMLID: "me"}, Program: program, Args: args}
	return c.Run(ctx)
}

// TestIperf: a real transfer over loopback in a namespace, reported outside of it.
func TestIperf(t *testing.T) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("no iperf3")
	}
	host := namespace.New(t)
	address, received := collector(t)
	serveIperf(t, host)
	inside := script(t, "exec ip netns exec "+host+" iperf3 \"$@\"\n")
	if err := runIperf(t.Context(), address, inside, "--", "-c", "127.0.0.1", "-t", "1", "-i", "0.5", "-P", "2", "-b", "10M"); err != nil {
		t.Fatal(err)
	}
	text := <-received
	for _, part := range []string{"domain: lab\n", "sender-id: me\n", "app-name: iperf3\n", "1 iperf3_interval start:double", "2 iperf3_stream socket:int64",
		"\tcommand_line\tiperf3 -c 127.0.0.1 -t 1", "\tiperf3_version\tiperf 3", "\tprotocol\tTCP\n", "\texit_code\t0\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	intervals := len(regexp.MustCompile(`(?m)^[0-9.-]+\t1\t[0-9]+\t`).FindAllString(text, -1))
	streams := len(regexp.MustCompile(`(?m)^[0-9.-]+\t2\t[0-9]+\t`).FindAllString(text, -1))
	if intervals < 2 || streams != 2*intervals {
		t.Errorf("%d intervals, %d rows of streams:\n%s", intervals, streams, text)
	}
}

// TestIperfPackets: a row for each datagram, at both ends, of a real test over loopback.
func TestIperfPackets(t *testing.T) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("no iperf3")
	}
	host := namespace.New(t)
	run := func(rows string, args ...string) *exec.Cmd {
		line := append([]string{"netns", "exec", host, os.Args[0], "run-iperf3", "--oml", "file:" + rows, "--oml-domain", "lab", "--oml-id", "me"}, args...)
		command := exec.Command("ip", line...)
		command.Env = append(os.Environ(), commandtest.Environment)
		return command
	}
	folder := t.TempDir()
	serveIperf(t, host)
	rows := filepath.Join(folder, "rows")
	// 100 datagrams of 200 bytes.
	said, err := run(rows, "--style", "packets", "--dev", "lo", "--", "-c", "127.0.0.1", "-u", "-l", "200", "-n", "20000", "-b", "1M").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^[0-9.-]+\t1\t[0-9]+\t[0-9]+\t[0-9]+\t([0-9]+)\t200\t([0-9]+)\t([0-9]+)\t([0-9]+)$`).FindAllStringSubmatch(string(text), -1)
	for i, row := range found {
		sent, _ := strconv.ParseInt(row[2], 10, 64)
		received, _ := strconv.ParseInt(row[3], 10, 64)
		if row[1] != strconv.Itoa(i+1) || sent > received {
			t.Errorf("row %d: %q", i, row)
		}
	}
	if len(found) < 100 || len(found) > 101 || !strings.Contains(string(text), "app-name: iperf\n") || !strings.Contains(string(text), "\tcapture\t") {
		t.Errorf("%d rows of packets:\n%.2000s", len(found), text)
	}
	if said, err := run(rows, "--style", "packets", "--dev", "lo", "--", "-c", "127.0.0.1").CombinedOutput(); err == nil || !strings.Contains(string(said), "use -u") {
		t.Errorf("%v: %s", err, said)
	}
	if said, err := run(rows, "--style", "packets", "--", "-c", "127.0.0.1", "-u").CombinedOutput(); err == nil || !strings.Contains(string(said), "--dev") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestIperfInterrupted: the final report is used. The script signals in a FIFO that it
// runs, and must be interrupted only once.
func TestIperfInterrupted(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	program := script(t, `[ "$1" = --help ] && exit
trap 'n=$((n+1)); echo "{\"intervals\":[{\"sum\":{\"bytes\":$n}}],\"error\":\"interrupted\"}"; kill $p; exit 3' INT
sleep 60 >&- 2>&- & p=$!
echo up > `+fifo+`
wait
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		os.ReadFile(fifo)
		cancel()
	}()
	rows := filepath.Join(t.TempDir(), "rows")
	err := runIperf(ctx, "file:"+rows, program, "-c", "x")
	var exit agent.Exit
	if !errors.As(err, &exit) || exit.Code != 3 || agent.Fail(io.Discard, err) != 3 {
		t.Errorf("%v", err)
	}
	if text := commandtest.Text(t, rows); !strings.Contains(text, "\tnan\tnan\tnan\t1\tnan\t") || !strings.Contains(text, "\terror\tinterrupted\n") {
		t.Errorf("%s", text)
	}
}

func TestIperfFails(t *testing.T) {
	for name, test := range map[string]struct {
		program string
		code    int
		want    string
	}{
		"reports an error with code 0": {`echo '{"start":{},"intervals":[],"error":"unable to connect"}'`, 1, "unable to connect"},
		"own code":                     {"exit 7", 7, "exited with 7"},
		"killed":                       {"kill -9 $$", 137, "exited with 137"},
		"no JSON":                      {"echo hello", command.ExitFailure, "unexpected output"},
	} {
		t.Run(name, func(t *testing.T) {
			err := runIperf(t.Context(), "file:"+filepath.Join(t.TempDir(), "rows"), script(t, "[ \"$1\" = --help ] && exit\n"+test.program+"\n"), "-c", "x")
			if err == nil || agent.Fail(io.Discard, err) != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v", err)
			}
		})
	}
	if err := runIperf(t.Context(), "file:-", "no-such-iperf3", "-c", "x"); agent.Fail(io.Discard, err) != command.ExitUser {
		t.Error(err)
	}
	if err := runIperf(t.Context(), "file:-", "iperf3", "--"); !errors.Is(err, command.ErrUsage) {
		t.Error(err)
	}
}

// serveIperf starts an iperf3 server in the namespace, for one test.
func serveIperf(t *testing.T, host string) {
	t.Helper()
	server := exec.Command("ip", "netns", "exec", host, "iperf3", "-s", "-1", "--forceflush")
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	for said := ""; !strings.Contains(said, "listening"); {
		piece := make([]byte, 1024)
		n, err := out.Read(piece)
		if err != nil {
			t.Fatalf("the server said %q: %v", said, err)
		}
		said += string(piece[:n])
	}
	go io.Copy(io.Discard, out)
}
