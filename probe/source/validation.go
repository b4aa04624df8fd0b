package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/internal/clock"
	"pillion.dev/wire"
)

// A Path is a destination and the encoding of packets to it.
type Path struct {
	Address  netip.Addr
	Encoding wire.Encoding
}

// A Validation is what is known about a path: enum validation_state of validation.h.
type Validation uint32

const (
	// Unknown paths were not tested yet, or gave no answer.
	Unknown Validation = iota
	// Passed says that marked packets arrive.
	Passed
	// Failed says that marked packets do not arrive while others do.
	Failed
)

// A Request asks for the test of a path, or if TooBig is set for a test of the packet size
// on all paths to the address: an ICMP error about a packet of a flow says that it was too big,
// or segments were retransmitted.
type Request struct {
	Path
	TooBig bool
	// Held is the size, bytes, above which packets to the address have no mark for some time
	// because of retransmissions; or 0.
	Held int
}

const pathTooBig = 0x100 // PATH_TOO_BIG of quote.h

// NextRequest waits for a flow that wants to use a path whose validation is unknown, or for
// an ICMP error. A path is announced once. After StopRequests the error is os.ErrClosed.
func (s *Source) NextRequest() (Request, error) {
	record, err := s.requests.Read()
	if err != nil {
		return Request{}, fmt.Errorf("read requested path: %w", err)
	}
	var raw sourceEncodedPath
	if err := binary.Read(bytes.NewReader(record.RawSample), binary.NativeEndian, &raw); err != nil {
		return Request{}, fmt.Errorf("read requested path: %w", err)
	}
	if raw.Encoding == pathTooBig {
		raw.Encoding = 0
		held, err := s.held(raw)
		if err != nil {
			return Request{}, fmt.Errorf("read requested path: %w", err)
		}
		return Request{Path{Address: raw.path().Address}, true, held}, nil
	}
	return Request{Path: raw.path()}, nil
}

func (s *Source) held(raw sourceEncodedPath) (int, error) {
	var limit sourcePathLimit
	err := s.objects.Paths.Lookup(sourcePath{Dst: raw.Dst, Family: uint32(raw.Family)}, &limit)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, err
	}
	return int(limit.Held), nil
}

// StopRequests ends NextRequest.
func (s *Source) StopRequests() error { return s.requests.Close() }

// SetValidation changes what is known about a path. It applies to the next packet of each flow.
func (s *Source) SetValidation(path Path, v Validation) error {
	raw := rawPath(path)
	var value sourceValidation
	if err := s.objects.Validations.Lookup(raw, &value); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("look up validation: %w", err)
	}
	value.State = uint32(v)
	if err := s.objects.Validations.Put(raw, value); err != nil {
		return fmt.Errorf("set validation of %v to %v: %w", path.Encoding, path.Address, err)
	}
	return s.revalidate()
}

// revalidate makes every flow look its validation up again.
func (s *Source) revalidate() error {
	return s.objects.ValidationsState.Set(s.validated.Add(1))
}

// ForgetPath makes the validation of a path unknown; a flow that wants to use it announces
// it again.
func (s *Source) ForgetPath(path Path) error {
	if err := s.objects.Validations.Delete(rawPath(path)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget validation of %v to %v: %w", path.Encoding, path.Address, err)
	}
	return s.revalidate()
}

// MTU returns the size of the largest IP packet that may leave the device, bytes.
func (s *Source) MTU() (int, error) {
	var mtu uint32
	if err := s.objects.PathMtu.Get(&mtu); err != nil {
		return 0, fmt.Errorf("read MTU of %s: %w", s.device.Name, err)
	}
	return int(mtu), nil
}

// LimitPath limits packets to an address to this size with their mark, as if a router had
// reported it as path MTU. Size 0 removes the limit, which a router may then report again. Either
// ends a limit that retransmissions have led to.
func (s *Source) LimitPath(address netip.Addr, size int) error {
	target := rawTarget(address)
	key := sourcePath{Dst: target.Address, Family: target.Family}
	if size == 0 {
		if err := s.objects.Paths.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove path MTU to %v: %w", address, err)
		}
		return s.revalidate()
	}
	var known sourcePathLimit
	err := s.objects.Paths.Lookup(key, &known)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("look up path MTU to %v: %w", address, err)
	}
	limit := sourcePathLimit{Mtu: uint32(size)}
	if err == nil && known.Mtu != 0 {
		limit.Mtu = min(limit.Mtu, known.Mtu)
	}
	if err := s.objects.TicksNow.Get(&limit.Learned); err != nil {
		return fmt.Errorf("limit path MTU to %v: %w", address, err)
	}
	if err := s.objects.Paths.Put(key, limit); err != nil {
		return fmt.Errorf("limit path MTU to %v: %w", address, err)
	}
	if err := s.objects.PathsKnown.Set(uint32(1)); err != nil {
		return fmt.Errorf("limit path MTU to %v: %w", address, err)
	}
	return s.revalidate()
}

// PathsInUse returns the paths that flows asked for within this time before the last
// Renew, and has the flows that still use them ask again.
func (s *Source) PathsInUse(within time.Duration) (map[Path]bool, error) {
	tick, err := clock.Tick()
	if err != nil {
		return nil, fmt.Errorf("list paths: %w", err)
	}
	var now uint64
	if err := s.objects.TicksNow.Get(&now); err != nil {
		return nil, fmt.Errorf("list paths: %w", err)
	}
	used := map[Path]bool{}
	var raw sourceEncodedPath
	var value sourceValidation
	entries := s.objects.Validations.Iterate()
	for entries.Next(&raw, &value) {
		if value.Used+uint64(within/tick) >= now {
			used[raw.path()] = true
		}
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("list paths: %w", err)
	}
	return used, s.revalidate()
}

func rawPath(path Path) sourceEncodedPath {
	target := rawTarget(path.Address)
	return sourceEncodedPath{Dst: target.Address, Family: uint16(target.Family), Encoding: uint16(path.Encoding)}
}

func (raw *sourceEncodedPath) path() Path {
	var b [16]byte
	for i, word := range raw.Dst {
		binary.NativeEndian.PutUint32(b[4*i:], word)
	}
	address := netip.AddrFrom16(b)
	if raw.Family == 4 {
		address = netip.AddrFrom4([4]byte(b[:4]))
	}
	return Path{address, wire.Encoding(raw.Encoding)}
}
