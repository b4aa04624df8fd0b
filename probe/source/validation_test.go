package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

func validating(t *testing.T, list ...wire.Encoding) *Source {
	s := open(t, Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: list, Marking: wire.Marking{StampEvery: 1}}, ValidatePaths: true})
	var err error
	if s.requests, err = ringbuf.NewReader(s.objects.ValidationRequests); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Source) validate(t *testing.T, address string, e wire.Encoding, v Validation) {
	t.Helper()
	if err := s.SetValidation(Path{netip.MustParseAddr(address), e}, v); err != nil {
		t.Fatal(err)
	}
}

// requested returns the paths announced so far.
func (s *Source) requested(t *testing.T) (paths []Request) {
	t.Helper()
	s.requests.SetDeadline(time.Unix(1, 0)) // read what is there
	for {
		path, err := s.NextRequest()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return paths
		}
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
}

// TestValidationComesBeforeMarks: flows of before and after a change heed it, in both
// families and whichever encoding they have.
func TestValidationComesBeforeMarks(t *testing.T) {
	six := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("x")))
	four := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, []byte("x")))
	segment := ipv4("192.0.2.1", "198.51.100.2", 6, tcp(1, 2, 0x10, nil, nil))
	usual, last := wire.EncodingList{wire.UDPOption, wire.Native, wire.UDP}, wire.EncodingList{wire.Native, wire.UDP, wire.UDPOption}
	for _, row := range []struct {
		name    string
		packet  []byte
		to      string
		list    wire.EncodingList
		choices []wire.Encoding
	}{
		{"IPv6", six, "2001:db8::2", usual, []wire.Encoding{wire.UDPOption, wire.Native}},
		{"IPv4", four, "198.51.100.2", usual, []wire.Encoding{wire.UDPOption, wire.UDP}},
		{"TCP", segment, "198.51.100.2", usual, []wire.Encoding{wire.UDP}},
		{"IPv6, option last", six, "2001:db8::2", last, []wire.Encoding{wire.Native, wire.UDPOption}},
		{"IPv4, option last", four, "198.51.100.2", last, []wire.Encoding{wire.UDP, wire.UDPOption}},
		{"standard first", six, "2001:db8::2", wire.EncodingList{wire.IOAME2E, wire.UDPOption}, []wire.Encoding{wire.IOAME2E, wire.UDPOption}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := validating(t, row.list...)
			for _, e := range row.choices {
				for range 3 {
					if got := s.outcome(t, row.packet); got != "unvalidated" {
						t.Fatalf("got %s, want unvalidated", got)
					}
				}
				if got, want := s.requested(t), (Path{netip.MustParseAddr(row.to), e}); len(got) != 1 || got[0] != (Request{Path: want}) {
					t.Fatalf("announced %v, want %v once", got, want)
				}
				s.validate(t, row.to, e, Passed)
				for range 3 {
					out := run(t, s.objects.SourceTc, row.packet)
					if _, _, encoding, err := codec.Extract(out, wire.Port); err != nil || encoding != e {
						t.Fatalf("%v, %v, want %v", encoding, err, e)
					}
				}
				s.validate(t, row.to, e, Failed)
			}
			if got := s.outcome(t, row.packet); got != "path_failed" {
				t.Errorf("got %s, want path_failed", got)
			}
			s.validate(t, row.to, row.choices[0], Passed)
			if got := s.outcome(t, row.packet); got != "marked" {
				t.Errorf("got %s, want marked", got)
			}
			if err := s.ForgetPath(Path{netip.MustParseAddr(row.to), row.choices[0]}); err != nil {
				t.Fatal(err)
			}
			if got := s.outcome(t, row.packet); got != "unvalidated" || len(s.requested(t)) != 1 {
				t.Errorf("got %s and no announcement of a forgotten path", got)
			}
			multicast := ipv6("2001:db8::1", "ff02::1", 17, ported(1, 2, nil))
			if got := s.outcome(t, multicast); got != "multicast" || len(s.requested(t)) != 0 {
				t.Errorf("multicast is %s, and announced", got)
			}
		})
	}
}

// TestOrderOfEncodings: without path validation a datagram gets the first encoding of the list.
func TestOrderOfEncodings(t *testing.T) {
	packets := map[bool][]byte{
		true:  ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("x"))),
		false: ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, []byte("x"))),
	}
	for _, row := range []struct {
		list      wire.EncodingList
		six, four wire.Encoding
	}{
		{wire.EncodingList{wire.UDPOption, wire.Native}, wire.UDPOption, wire.UDPOption},
		{wire.EncodingList{wire.Native, wire.UDPOption}, wire.Native, wire.UDPOption},
		{wire.EncodingList{wire.UDP, wire.UDPOption}, wire.UDPOption, wire.UDP}, // udp is for IPv4
		{wire.EncodingList{wire.IOAME2E, wire.UDPOption}, wire.IOAME2E, wire.UDPOption},
	} {
		s := open(t, Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: row.list, Marking: wire.Marking{StampEvery: 1}}})
		for six, packet := range packets {
			want := row.four
			if six {
				want = row.six
			}
			for range 2 {
				out := run(t, s.objects.SourceTc, packet)
				if _, _, encoding, err := codec.Extract(out, wire.Port); err != nil || encoding != want {
					t.Errorf("%v: %v, %v, want %v", row.list, encoding, err, want)
				}
			}
		}
	}
}

// TestPathsInUse: packets keep a path in use although the verdict on their flow is kept.
func TestPathsInUse(t *testing.T) {
	const to = "198.51.100.2"
	for name, row := range map[string]struct {
		packet   []byte
		encoding wire.Encoding
	}{
		"option":         {ipv4("192.0.2.1", to, 17, ported(1, 2, []byte("x"))), wire.UDPOption},
		"other encoding": {ipv4("192.0.2.1", to, 6, tcp(1, 2, 0x10, nil, nil)), wire.UDP},
	} {
		t.Run(name, func(t *testing.T) {
			s := validating(t, wire.UDPOption, wire.UDP)
			path := Path{netip.MustParseAddr(to), row.encoding}
			s.validate(t, to, row.encoding, Passed)
			inUse := func() bool {
				t.Helper()
				if err := s.Renew(Forever); err != nil { // which reads the kernel's ticks
					t.Fatal(err)
				}
				used, err := s.PathsInUse(time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				return used[path]
			}
			for range 2 {
				for range 3 {
					if got := s.outcome(t, row.packet); got != "marked" {
						t.Fatalf("got %s, want marked", got)
					}
				}
				if !inUse() {
					t.Error("not in use after packets")
				}
				if err := s.objects.Validations.Put(rawPath(path), sourceValidation{State: uint32(Passed)}); err != nil {
					t.Fatal(err)
				}
				if inUse() {
					t.Error("in use without packets")
				}
			}
		})
	}
}

// TestLimitPath: packets that would exceed the limit once marked stay as they are, until it
// is removed.
func TestLimitPath(t *testing.T) {
	const to = "198.51.100.2"
	packet := ipv4("192.0.2.1", to, 17, ported(1, 2, make([]byte, 100))) // 128 bytes, 142 with a mark
	s := validating(t, wire.UDPOption)
	s.validate(t, to, wire.UDPOption, Passed)
	for _, row := range []struct {
		limit   int
		outcome string
	}{{0, "marked"}, {142, "marked"}, {141, "mtu"}, {1400, "mtu"}, {0, "marked"}, {1400, "marked"}} {
		if err := s.LimitPath(netip.MustParseAddr(to), row.limit); err != nil {
			t.Fatal(err)
		}
		if got := s.outcome(t, packet); got != row.outcome {
			t.Errorf("limit %d: got %s, want %s", row.limit, got, row.outcome)
		}
	}
}

// TestPathProbesAreMarked in the encoding that their firewall mark names, whatever is known
// of the path and without rules, and count as probes.
func TestPathProbesAreMarked(t *testing.T) {
	const markOffset, contextSize = 8, 192 // in struct __sk_buff
	six := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, wire.ProbePort, make([]byte, 24)))
	four := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, wire.ProbePort, make([]byte, 24)))
	for _, row := range []struct {
		packet   []byte
		encoding wire.Encoding
	}{{six, wire.UDPOption}, {six, wire.Native}, {four, wire.UDPOption}, {four, wire.UDP}, {four, wire.Shim}, {four, wire.IPIP}} {
		t.Run(row.encoding.String(), func(t *testing.T) {
			settings := Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.Encodings()}, ValidatePaths: true, StartEmpty: true}
			s := open(t, settings)
			context := make([]byte, contextSize)
			binary.NativeEndian.PutUint32(context[markOffset:], PathProbeMark(row.encoding))
			in := frame(row.packet)
			options := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256), Context: context}
			if _, err := s.objects.SourceTc.Run(&options); err != nil {
				t.Fatal(err)
			}
			restored, _, encoding, err := codec.Extract(options.DataOut[14:], wire.Port)
			if err != nil || encoding != row.encoding || !bytes.Equal(restored, row.packet) {
				t.Errorf("%x: %v, %v", options.DataOut, encoding, err)
			}
			if tally := s.mustTally(t); tally.Skipped["probe"] != 1 || tally.Seen != 1 || tally.FlowsStarted != 0 || tally.BytesAdded != 0 {
				t.Errorf("%+v", tally)
			}
		})
	}
}
