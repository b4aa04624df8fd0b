// Package clib contains no Go: it is the C library libpillion. These tests build it,
// control a program that uses it, and parse what that sends with package omsp.
package clib

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/sealed"
	"pillion.dev/oml/omsp"
)

// long is the timeout of every wait for a condition.
const long = hang.Limit

func afterLong(do func()) (stop func() bool) { return time.AfterFunc(long, do).Stop }

// flags for the compiler; with CLIB_CFLAGS='-O1 -g -fsanitize=thread' the same tests run
// under a sanitizer.
var flags = func() []string {
	if own := os.Getenv("CLIB_CFLAGS"); own != "" {
		return strings.Fields(own)
	}
	return []string{"-O2", "-g"}
}()

// build is the folder of the library and the programs.
var build string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if _, err := exec.LookPath("gcc"); err != nil {
			fmt.Println("clib: no gcc: left out")
			return 0
		}
		folder, err := os.MkdirTemp("", "clib")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		build = folder
		for _, command := range [][]string{
			{"make", "BUILD=" + folder, "CFLAGS=" + strings.Join(flags, " ")},
			append([]string{"gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-pthread", "-o", folder + "/client",
				"test/client.c", "-L" + folder, "-loml2", "-Wl,-rpath," + folder}, flags...),
		} {
			if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
				fmt.Printf("%s: %v\n%s", strings.Join(command, " "), err, out)
				return 1
			}
		}
		return sealed.Main(m)
	}())
}

// client is a running program.
type client struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func startClient(t *testing.T, options ...string) *client {
	t.Helper()
	cmd := exec.Command(build+"/client", append([]string{"--oml-id", "tester", "--oml-domain", "trial"}, options...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := afterLong(func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("client: %v", err)
		}
		stop()
		if t.Failed() {
			t.Logf("client said:\n%s", &said)
		}
	})
	return &client{t, in, bufio.NewReader(out)}
}

// command sends a command and scans the answer with a format.
func (c *client) command(command, format string, to ...any) {
	c.t.Helper()
	fmt.Fprintln(c.in, command)
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	if _, err := fmt.Sscanf(line, format, to...); err != nil {
		c.t.Fatalf("%s: %q: %v", command, line, err)
	}
}

func (c *client) inject(threads, count int) (refused int, worst time.Duration) {
	c.t.Helper()
	c.command(fmt.Sprintf("inject %d %d", threads, count), "refused %d worst %d", &refused, &worst)
	return refused, worst
}

func (c *client) close(want int) time.Duration {
	c.t.Helper()
	var got int
	var took time.Duration
	c.command("close", "close %d %d", &got, &took)
	if got != want {
		c.t.Errorf("close returned %d, want %d", got, want)
	}
	return took
}

// forms are the variants of the protocol.
var forms = []struct {
	name    string
	answers bool
	options []string
}{
	{"text", false, []string{"--oml-text"}},
	{"binary", false, nil},
	{"text-answers", true, []string{"--oml-text"}},
	{"binary-answers", true, []string{"--oml-binary"}},
}

func TestTypes(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			c := newCollector(t, f.answers, 1)
			p := startClient(t, append(f.options, "--oml-collect", "tcp:"+c.address)...)
			var failed int
			p.command("types", "types %d", &failed)
			p.close(0)
			c.until("3 tuples", func() bool { return len(c.of("client_types")) == 3 })
			for i, got := range c.of("client_types") {
				want := wantTypes(i, f.name == "binary")
				for n := range want {
					if !got.values[n].Equal(&want[n]) {
						t.Errorf("sample %d, field %d: %+v, want %+v", i, n, got.values[n], want[n])
					}
				}
			}
			if h := c.headers[0]; h.Domain != "trial" || h.Sender != "tester" || h.App != "client" || h.Protocol != 5 {
				t.Errorf("header %+v", h)
			}
		})
	}
}

// wantTypes is what inject_types of the client injects; old: doubles have 30 bits.
func wantTypes(i int, old bool) []omsp.Value {
	v := make([]omsp.Value, 16)
	side := i % 2
	doubles := []float64{1.5, -0.1}
	d := doubles[side]
	if old && side == 1 {
		fraction, exponent := math.Frexp(d)
		d = math.Ldexp(math.Trunc(fraction*(1<<30))/(1<<30), exponent)
	}
	text, blob := "a\tb\\c\nd\rä", []byte{0, 1, 0xff}
	if i == 2 {
		d, text, blob = math.NaN(), "", nil
	}
	v[0].SetDouble(d)
	v[1].SetInt(omsp.Int32, []int64{-7, math.MaxInt32}[side])
	v[2].SetString(text)
	v[3].SetInt(omsp.Int32, []int64{math.MinInt32, math.MaxInt32}[side])
	v[4].SetUint(omsp.Uint32, []uint64{0, math.MaxUint32}[side])
	v[5].SetInt(omsp.Int64, []int64{math.MinInt64, math.MaxInt64}[side])
	v[6].SetUint(omsp.Uint64, []uint64{0, math.MaxUint64}[side])
	v[7].SetBlob(blob)
	v[8].SetUint(omsp.GUID, 0x1122334455667788)
	v[9].SetBool(side == 1)
	lists := [][]uint64{
		{math.Float64bits(1.5), math.Float64bits(-0.1)}, {0xffffffff80000000, math.MaxInt32}, {0, math.MaxUint32},
		{1 << 63, math.MaxInt64}, {0, math.MaxUint64}, {1, 0},
	}
	for n, element := range []omsp.Type{omsp.Double, omsp.Int32, omsp.Uint32, omsp.Int64, omsp.Uint64, omsp.Bool} {
		if i == 2 {
			lists[n] = nil
		}
		v[10+n].SetElements(element|omsp.Vector, lists[n])
	}
	return v
}

func TestThreads(t *testing.T) {
	c := newCollector(t, true, 500)
	p := startClient(t, "--oml-collect", c.address)
	if refused, _ := p.inject(8, 5000); refused > 0 {
		t.Errorf("%d samples were dropped", refused)
	}
	p.close(0)
	c.numbers(40000)
}

// A collector that is killed and restarted gets every tuple exactly once.
func TestKilled(t *testing.T) {
	for _, f := range forms[2:] {
		t.Run(f.name, func(t *testing.T) {
			c := newCollector(t, true, 300)
			p := startClient(t, append(f.options, "--oml-collect", c.address)...)
			p.inject(1, 5000)
			c.until("some tuples", func() bool { return len(c.stored) > 1000 })
			c.kill()
			p.inject(1, 20000)
			c.start()
			c.until("the tuples from before", func() bool { return len(c.stored) >= 25000 })
			c.kill()
			c.start()
			p.inject(1, 1000)
			p.close(0)
			c.numbers(26000)
			if len(c.headers) < 3 || c.headers[0].Extra["pillion-session"] != c.headers[2].Extra["pillion-session"] {
				t.Errorf("%d connections", len(c.headers))
			}
		})
	}
}

// A collector without acknowledgements gets complete tuples after a disconnect.
func TestCut(t *testing.T) {
	for _, f := range forms[:2] {
		t.Run(f.name, func(t *testing.T) {
			c := newCollector(t, false, 1)
			p := startClient(t, append(f.options, "--oml-collect", c.address)...)
			p.inject(1, 2000)
			c.until("some tuples", func() bool { return len(c.stored) > 0 })
			c.kill()
			p.inject(1, 2000)
			c.start()
			p.inject(1, 2000)
			p.close(0)
			c.until("the last", func() bool { return len(c.stored) > 0 && c.stored[len(c.stored)-1].seq == 6000 })
			c.lock.Lock()
			defer c.lock.Unlock()
			if len(c.faults) > 0 || c.skipped > 0 {
				t.Errorf("faults %v, %d bytes skipped", c.faults, c.skipped)
			}
		})
	}
}

// Samples dropped by a full ring are counted, reported, and leave gaps in seq.
func TestDropped(t *testing.T) {
	c := newCollector(t, true, 100)
	c.deaf = true
	p := startClient(t, "--oml-collect", c.address, "--oml-ring", "65536", "--oml-bufsize", "0")
	refused := 0
	for refused < 1000 {
		n, _ := p.inject(1, 50000)
		refused += n
	}
	var injected, dropped int
	p.command("counts", "counts %d %d", &injected, &dropped)
	if dropped != refused {
		t.Errorf("%d dropped, %d injections failed", dropped, refused)
	}
	c.lock.Lock()
	c.deaf = false
	c.changed.Broadcast()
	c.lock.Unlock()
	want := note{".client_load", "dropped", fmt.Sprint(refused)}
	c.until("the number of drops", func() bool { return slices.Contains(c.notes, want) })
	p.command("again", "again 1")
	p.inject(1, 10)
	p.command("counts", "counts %d %d", &injected, &dropped)
	p.close(0)
	c.lock.Lock()
	defer c.lock.Unlock()
	all := c.of("client_load")
	if len(all) != injected {
		t.Errorf("%d samples arrived, %d were injected", len(all), injected)
	}
	if last := all[len(all)-1].seq; last != int64(injected+dropped) {
		t.Errorf("the last seq is %d, with %d injected and %d dropped", last, injected, dropped)
	}
}

// A collector that does not read never blocks the program.
func TestStopped(t *testing.T) {
	c := newCollector(t, true, 100)
	c.deaf = true
	p := startClient(t, "--oml-collect", c.address, "--oml-ring", "1000000", "--oml-bufsize", "0", "--oml-close", "0.5")
	refused, worst := p.inject(2, 200000)
	took := p.close(-1)
	t.Logf("%d of 400000 dropped, slowest inject %v, close %v", refused, worst, took)
}

// A short run against a server without acknowledgements succeeds quickly.
func TestShort(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			c := newCollector(t, f.answers, 10)
			p := startClient(t, append(f.options, "--oml-collect", "//"+c.address)...)
			p.inject(1, 10)
			p.close(0)
			c.until("10 tuples", func() bool { return len(c.of("client_load")) == 10 })
		})
	}
}

// Points may be declared and metadata sent after the start; long strings are truncated in
// binary only.
func TestLater(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			c := newCollector(t, f.answers, 1)
			p := startClient(t, append(f.options, "--oml-collect", c.address)...)
			var failed int
			p.inject(1, 1)
			c.until("a tuple", func() bool { return len(c.stored) == 1 })
			p.command("add late", "add %d", &failed)
			p.command("long 1000", "long %d", &failed)
			p.command("note unit seconds", "note %d", &failed)
			p.close(0)
			c.until("all", func() bool { return len(c.of("client_late")) == 1 && len(c.of("client_load")) == 2 })
			c.lock.Lock()
			defer c.lock.Unlock()
			want := 1000
			if strings.HasPrefix(f.name, "binary") {
				want = 255
			}
			if got := len(c.of("client_load")[1].values[2].Bytes()); got != want {
				t.Errorf("%d characters of %d", got, want)
			}
			if !slices.Contains(c.notes, note{".client_load.n", "unit", "seconds"}) || len(c.faults) > 0 {
				t.Errorf("notes %v, faults %v", c.notes, c.faults)
			}
		})
	}
}

// A collector that requests fewer samples gets them, with metadata and without gaps.
func TestThin(t *testing.T) {
	c := newCollector(t, true, 1)
	p := startClient(t, "--oml-collect", c.address)
	p.inject(1, 5)
	c.until("5 tuples", func() bool { return len(c.stored) == 5 })
	c.ask("thin 10\n")
	c.until("the note", func() bool { return slices.Contains(c.notes, note{".client_load", "thinned", "10"}) })
	p.inject(1, 100)
	c.until("15 tuples", func() bool { return len(c.of("client_load")) == 15 })
	c.ask("thin 1\n")
	c.until("the note", func() bool { return slices.Contains(c.notes, note{".client_load", "thinned", "1"}) })
	p.inject(1, 5)
	p.close(0)
	c.until("20 tuples", func() bool { return len(c.of("client_load")) == 20 })
	if last := c.stored[19].seq; last != 20 {
		t.Errorf("the last seq is %d", last)
	}
}

// A collector that requests aggregates gets them in a stream of their own, without gaps in
// that of the samples.
func TestAggregate(t *testing.T) {
	c := newCollector(t, true, 1)
	p := startClient(t, "--oml-collect", c.address)
	p.inject(1, 5)
	c.until("5 tuples", func() bool { return len(c.of("client_load")) == 5 })
	if got := c.headers[0].Extra["pillion-feedback"]; got != "thin slow aggregate" {
		t.Errorf("the client announces %q", got)
	}
	c.ask("aggregate 20\n")
	c.until("the note", func() bool { return slices.Contains(c.notes, note{".client_load", "aggregated", "20"}) })
	p.inject(1, 100)
	c.until("aggregates", func() bool { return len(c.of("client_load_aggregate")) > 0 })
	// Of a point that is too wide for a schema in binary:
	c.until("the other note", func() bool { return slices.Contains(c.notes, note{".client_types", "thinned", "2"}) })
	c.ask("aggregate 0\n")
	c.until("the note", func() bool { return slices.Contains(c.notes, note{".client_load", "aggregated", "0"}) })
	p.inject(1, 5)
	p.close(0)
	c.until("10 samples", func() bool { return len(c.of("client_load")) == 10 })
	c.lock.Lock()
	defer c.lock.Unlock()
	if last := c.of("client_load")[9].seq; last != 10 {
		t.Errorf("the last seq is %d", last)
	}
	aggregates := c.of("client_load_aggregate")
	if n := len(aggregates); n > 50 || aggregates[n-1].seq != int64(n) || len(c.faults) > 0 {
		t.Errorf("%d aggregates, the last is %d, faults %v", n, aggregates[n-1].seq, c.faults)
	}
}

// A collector that requests a lower rate gets all tuples later.
func TestSlow(t *testing.T) {
	c := newCollector(t, true, 1)
	p := startClient(t, "--oml-collect", c.address)
	p.inject(1, 1)
	c.until("a tuple", func() bool { return len(c.stored) == 1 })
	c.ask("slow 100\n")
	c.until("the note", func() bool { return slices.Contains(c.notes, note{".", "slowed", "100"}) })
	p.inject(1, 2000) // more than 40 kB
	begun := time.Now()
	for received := 0; received == 0 || time.Since(begun) < 500*time.Millisecond; {
		time.Sleep(50 * time.Millisecond)
		c.lock.Lock()
		received = len(c.of("client_load"))
		c.lock.Unlock()
		if received > 1000 {
			break
		}
	}
	c.lock.Lock()
	early := len(c.of("client_load"))
	c.lock.Unlock()
	if early > 1000 {
		t.Errorf("%d of 2001 tuples after %v", early, time.Since(begun))
	}
	c.ask("slow 0\n")
	p.close(0)
	c.until("all tuples", func() bool { return len(c.of("client_load")) == 2001 })
}

// ask sends a line to all clients.
func (c *collector) ask(line string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for conn := range c.conns {
		io.WriteString(conn, line)
	}
}

func TestFile(t *testing.T) {
	for _, scheme := range []string{"file:", "flush:"} {
		for _, form := range []string{"", "--oml-binary"} {
			t.Run(scheme+form, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "out")
				options := []string{"--oml-collect", scheme + path, "--oml-samples", "1"}
				if form != "" {
					options = append(options, form)
				}
				p := startClient(t, options...)
				p.inject(2, 1000)
				p.close(0)
				file, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				r := omsp.NewReader(file, omsp.Limits{})
				h, err := r.Header()
				if err != nil {
					t.Fatal(err)
				}
				if _, found := h.Extra["pillion-session"]; found {
					t.Error("a file has a session")
				}
				var one omsp.Tuple
				for n := int64(1); n <= 2000; n++ {
					if err := r.Next(&one); err != nil || one.Seq != n {
						t.Fatalf("tuple %d: seq %d, %v", n, one.Seq, err)
					}
				}
				if err := r.Next(&one); err != io.EOF {
					t.Errorf("at the end: %v", err)
				}
			})
		}
	}
}

// With flush, each tuple is written immediately.
func TestFlush(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Opened for reading and writing, so that neither end blocks.
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := startClient(t, "--oml-collect", "flush:"+path)
	r := omsp.NewReader(file, omsp.Limits{})
	if _, err := r.Header(); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= 3; n++ {
		var one omsp.Tuple
		p.inject(1, 1)
		if err := r.Next(&one); err != nil || one.Seq != n {
			t.Fatalf("tuple %d: seq %d, %v", n, one.Seq, err)
		}
	}
	p.close(0)
}

// Samples from before the collector started arrive complete.
func TestAbsent(t *testing.T) {
	for _, f := range forms[2:] {
		t.Run(f.name, func(t *testing.T) {
			c := newCollector(t, true, 50)
			c.kill()
			p := startClient(t, append(f.options, "--oml-collect", c.address)...)
			p.inject(1, 3000)
			c.start()
			c.until("all", func() bool { return len(c.stored) == 3000 })
			p.close(0)
			c.numbers(3000)
		})
	}
}

// Garbage from a collector does no harm.
func TestNoise(t *testing.T) {
	c := newCollector(t, true, 1)
	p := startClient(t, "--oml-collect", c.address)
	p.inject(1, 1)
	c.until("a tuple", func() bool { return len(c.stored) == 1 })
	for _, noise := range []string{
		"stored 256 1\nstored -1 1\nstored 1\nstored x y\nstored 99999999999 1\nstored 2 99999999999999999999999\n", "thin 0\nthin -1\nthin x\nslow -1\nslow x\naggregate -1\naggregate\n\n\n",
		"\x00\x00\n\xff\n", "go\ngo\npillion 2\npillion 1\n", strings.Repeat("x", 200000) + "\n", strings.Repeat("y", 100000),
	} {
		c.ask(noise)
		p.inject(1, 10)
	}
	p.close(0)
	c.numbers(61)
}
