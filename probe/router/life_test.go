package router

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/namespace"
)

// traffic sends numbered packets from the left host to the right one and sees each
// arrive, until stopped.
type traffic struct {
	t       *testing.T
	client  *net.UDPConn
	sent    uint64
	arrived atomic.Uint64
	room    chan struct{} // what may be on its way, in packets
	stopped chan struct{}
	sender  sync.WaitGroup
	workers sync.WaitGroup
}

// ahead is how many packets may be on their way: what the receiver has room for.
const ahead = 256

func (r *rig) traffic(t *testing.T) *traffic {
	f := &traffic{t: t, client: r.dial("10.9.2.2:9"), room: make(chan struct{}, ahead), stopped: make(chan struct{})}
	server := r.listen("10.9.2.2:9")
	f.workers.Go(func() { f.receive(server) })
	f.sender.Go(f.send)
	t.Cleanup(func() { f.end(); f.sender.Wait(); server.Close(); f.workers.Wait() })
	f.await(1)
	return f
}

func (f *traffic) end() {
	select {
	case <-f.stopped:
	default:
		close(f.stopped)
	}
}

func (f *traffic) send() {
	payload := make([]byte, 64)
	for {
		select {
		case f.room <- struct{}{}:
		case <-f.stopped:
			return
		}
		select {
		case <-f.stopped:
			<-f.room
			return
		default:
		}
		binary.LittleEndian.PutUint64(payload, f.sent)
		if _, err := f.client.Write(payload); err != nil {
			f.t.Errorf("send packet %d: %v", f.sent, err)
			return
		}
		f.sent++
	}
}

// receive wants each packet, and in its order.
func (f *traffic) receive(server *net.UDPConn) {
	payload := make([]byte, 64)
	for next := uint64(0); ; next++ {
		if _, err := server.Read(payload); err != nil {
			return // closed
		}
		if number := binary.LittleEndian.Uint64(payload); number != next {
			f.t.Errorf("packet %d arrived instead of %d", number, next)
			next = number
		}
		f.arrived.Store(next + 1)
		<-f.room
	}
}

// await waits until so many more packets have arrived.
func (f *traffic) await(more uint64) {
	f.t.Helper()
	from := f.arrived.Load()
	await(f.t, fmt.Sprintf("%d packets to arrive", more), func() bool { return f.arrived.Load() >= from+more })
}

// stop ends the traffic and fails the test unless every packet arrives.
func (f *traffic) stop() {
	f.t.Helper()
	f.end()
	f.sender.Wait()
	await(f.t, "every packet to arrive", func() bool { return len(f.room) == 0 })
	f.t.Logf("%d packets", f.arrived.Load())
}

// await waits for what has to come.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(limit) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// objects are what a profile has in the kernel, by their numbers there.
type objects struct {
	programs []ebpf.ProgramID
	maps     []ebpf.MapID
	links    []link.ID
}

func objectsOf(t *testing.T, r *Router) (o objects) {
	t.Helper()
	for name, p := range r.collection.Programs {
		info, err := p.Info()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		id, _ := info.ID()
		o.programs = append(o.programs, id)
	}
	for name, m := range r.collection.Maps {
		info, err := m.Info()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		id, _ := info.ID()
		o.maps = append(o.maps, id)
	}
	for _, l := range r.links {
		info, err := l.Info()
		if err != nil {
			t.Fatal(err)
		}
		o.links = append(o.links, info.ID)
	}
	return o
}

// left is what is still in the kernel, which frees it a little later.
func (o objects) left() (names []string) {
	count := func(thing fmt.Stringer, err error) {
		if !errors.Is(err, os.ErrNotExist) {
			names = append(names, fmt.Sprint(thing, err))
		}
		if closer, ok := thing.(io.Closer); ok && err == nil {
			closer.Close()
		}
	}
	for _, id := range o.programs {
		p, err := ebpf.NewProgramFromID(id)
		count(p, err)
	}
	for _, id := range o.maps {
		m, err := ebpf.NewMapFromID(id)
		count(m, err)
	}
	for _, id := range o.links {
		l, err := link.NewFromID(id)
		if err == nil {
			l.Close()
		}
		if !errors.Is(err, os.ErrNotExist) {
			names = append(names, fmt.Sprintf("link %d: %v", id, err))
		}
	}
	return names
}

func (o objects) awaitGone(t *testing.T) {
	t.Helper()
	var left []string
	t.Cleanup(func() {
		if len(left) > 0 {
			t.Log(left)
		}
	})
	await(t, "the kernel to let go of programs, maps and links", func() bool {
		runtime.GC() // variables are mapped until their values are collected
		left = o.left()
		return len(left) == 0
	})
}

// openFiles of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestProfilesStartAndStopUnderTraffic(t *testing.T) { profilesComeAndGo(t, 6) }

func profilesComeAndGo(t *testing.T, times int) {
	t.Helper()
	r := build(t)
	f := r.traffic(t)
	var files int
	for i := range times {
		profile := r.openProfile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}, Records: i%2 == 1})
		f.await(2 * ahead) // some of them were behind the router
		s, err := profile.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if s.Account.Forwarded == 0 {
			t.Errorf("profile %d saw nothing", i)
		}
		o := objectsOf(t, profile)
		if len(o.left()) == 0 {
			t.Fatal("no object is found of a profile that runs")
		}
		if err := profile.Close(); err != nil {
			t.Fatal(err)
		}
		o.awaitGone(t)
		if i == 0 {
			files = openFiles(t) // what is opened once has been
		}
	}
	if now := openFiles(t); now > files {
		t.Errorf("%d files are open after %d profiles, %d after the first", now, times, files)
	}
	f.stop()
}

// profileOf names a namespace: then the test of that name is the process which another
// test kills.
const profileOf = "PILLION_PROFILE_OF"

func TestProfileOfAnotherProcess(t *testing.T) {
	namespace := os.Getenv(profileOf)
	if namespace == "" {
		t.Skip("run by TestKilledProfileLeavesNothing")
	}
	r := &rig{t: t, router: namespace}
	o := objectsOf(t, r.profile(Options{Records: true}))
	fmt.Println("objects", numbers(o.programs), numbers(o.maps), numbers(o.links))
	select {} // until killed
}

func numbers[T ~uint32](ids []T) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, strconv.Itoa(int(id)))
	}
	return strings.Join(texts, ",")
}

func parseNumbers[T ~uint32](t *testing.T, text string) (ids []T) {
	t.Helper()
	for _, number := range strings.Split(text, ",") {
		id, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, T(id))
	}
	return ids
}

func TestKilledProfileLeavesNothing(t *testing.T) {
	namespace.NeedRoot(t)
	r := build(t)
	f := r.traffic(t)
	command := exec.Command(os.Args[0], "-test.run=^TestProfileOfAnotherProcess$", "-test.v")
	command.Env = append(os.Environ(), profileOf+"="+r.router)
	command.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var o objects
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 4 && fields[0] == "objects" {
			o = objects{parseNumbers[ebpf.ProgramID](t, fields[1]), parseNumbers[ebpf.MapID](t, fields[2]), parseNumbers[link.ID](t, fields[3])}
			break
		}
	}
	if len(o.left()) == 0 {
		t.Error("no object is found of a profile that runs")
	}
	f.await(1000)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it was killed
	o.awaitGone(t)
	f.await(1000)
	f.stop()
	// And its place is free.
	r.profile(Options{})
}
