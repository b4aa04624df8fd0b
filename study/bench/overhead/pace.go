package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/study/bench/thread"
)

// rateResult is a run of the measure rate.
type rateResult struct {
	Arm     string `json:"arm"`
	Traffic string `json:"traffic"`
	// AskedKpps is the specified rate in thousands of packets a second, Kpps that which
	// the receiving application achieved, and Share their ratio.
	AskedKpps float64 `json:"asked_kpps"`
	Kpps      float64 `json:"kpps"`
	Share     float64 `json:"share"`
	Reduction float64 `json:"reduction"` // 1 - Share
	// MbitPerS is the achieved rate of the payload.
	MbitPerS  float64 `json:"mbit_per_s"`
	Due       int     `json:"due"` // packets that the specified rate asks for
	Packets   int     `json:"packets"`
	Delivered int     `json:"delivered"`
	account
	Beside float64 `json:"beside"` // CPU time of the treatment's processes, in cores
}

// measureRate compares the rate that an application achieves with the one it asks for.
func measureRate(ctx context.Context, b *bench) (any, error) {
	r := rateResult{Arm: b.arm.String(), Traffic: b.traffic.String()}
	var err error
	r.account, err = b.treated(ctx, b.arm.treatment(b.settings), func(effect running) error {
		begin, cpu := time.Now(), effect.cpuTime()
		p, err := sendPaced(ctx, b.testbed, b.traffic, b.rate, b.core, b.length)
		r.Beside = float64(effect.cpuTime()-cpu) / float64(time.Since(begin))
		r.Due, r.Packets, r.Delivered = p.due, p.sent, p.delivered
		r.AskedKpps = float64(p.due) / b.length.Seconds() / 1e3
		r.Kpps = float64(p.delivered) / b.length.Seconds() / 1e3
		r.MbitPerS = r.Kpps * b.traffic.bits() / 1e3
		r.Share = float64(p.delivered) / float64(max(1, p.due))
		r.Reduction = 1 - r.Share
		return err
	})
	return r, err
}

// paced is a run of traffic at a specified rate.
type paced struct{ due, sent, delivered int }

// sendPaced sends datagrams at a rate from one thread to another, which has the next
// processor, if there is one. A sender that is late sends until it is not. A socket that
// is full loses packets, as any application's does.
func sendPaced(ctx context.Context, t *testbed, k traffic, rate float64, core int, duration time.Duration) (paced, error) {
	s, err := openSender(t, k.v6, k.payload)
	if err != nil {
		return paced{}, err
	}
	defer s.close()
	if err := netns.Do(t.destination.namespace, func() error { // as large as an application's
		return unix.SetsockoptInt(s.in, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 212992/2)
	}); err != nil {
		return paced{}, fmt.Errorf("open UDP socket: %w", err)
	}
	done := make(chan struct{})
	received := make(chan receipt, 1)
	go func() { received <- receive(s.in, k.payload, (core+1)%runtime.NumCPU(), done) }()

	gap := float64(8*(k.frame()+ethernetGaps)) / rate * 1e3 // ns
	p := paced{due: int(float64(duration.Nanoseconds()) / gap)}
	release, err := thread.Own(core)
	if err == nil {
		p.sent, err = s.pace(ctx, gap, p.due, duration)
		release()
	}
	close(done)
	r := <-received
	p.delivered = r.packets
	return p, errors.Join(err, r.err, ctx.Err())
}

// pace sends packets when they are due, until none is or the time is over.
func (s *sender) pace(ctx context.Context, gap float64, due int, duration time.Duration) (sent int, err error) {
	begin := time.Now()
	for sent < due {
		now := time.Since(begin)
		if now >= duration || sent%1024 == 0 && ctx.Err() != nil {
			break
		}
		wait := time.Duration(float64(sent)*gap) - now
		if wait > 200*time.Microsecond { // leave the processor to others, as an application does
			time.Sleep(wait - 100*time.Microsecond)
			continue
		}
		if wait > 0 {
			continue
		}
		_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(s.out),
			uintptr(unsafe.Pointer(unsafe.SliceData(s.payload))), uintptr(len(s.payload)))
		if e != 0 {
			return sent, fmt.Errorf("send %d bytes: %w", len(s.payload), e)
		}
		sent++
	}
	return sent, nil
}

type receipt struct {
	packets int
	err     error
}

// receive counts datagrams until done is closed and nothing more arrives.
func receive(in, payload, core int, done <-chan struct{}) (r receipt) {
	release, err := thread.Pin(core)
	if err != nil {
		return receipt{err: err}
	}
	defer release()
	idle := unix.NsecToTimeval((20 * time.Millisecond).Nanoseconds())
	if r.err = unix.SetsockoptTimeval(in, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &idle); r.err != nil {
		return r
	}
	buffer := make([]byte, payload+1)
	for {
		n, _, e := unix.Syscall6(unix.SYS_RECVFROM, uintptr(in), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), 0, 0, 0)
		switch {
		case e == 0 && int(n) == payload:
			r.packets++
		case e == unix.EAGAIN:
			select {
			case <-done:
				return r
			default:
			}
		case e != 0 && e != unix.EINTR:
			r.err = fmt.Errorf("receive: %w", e)
			return r
		}
	}
}
