package dnsname

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"
)

// fixture is a resolver with a clock and name servers under the test's control.
type fixture struct {
	*Resolver
	at     time.Time
	asked  atomic.Int64
	answer func(address string) ([]string, error)
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{at: time.Unix(1e9, 0)}
	f.Resolver = New(t.Context(), func(_ context.Context, address string) ([]string, error) {
		f.asked.Add(1)
		return f.answer(address)
	})
	f.now = func() time.Time { return f.at }
	return f
}

// learns expects a name after the lookups that asking for it begins.
func (f *fixture) learns(t *testing.T, address, want string) {
	t.Helper()
	f.Name(address)
	f.tasks.Wait()
	if got := f.Name(address); got != want {
		t.Errorf("name of %s is %q, want %q", address, got, want)
	}
	f.tasks.Wait()
}

func TestName(t *testing.T) {
	f := newFixture(t)
	f.answer = func(address string) ([]string, error) {
		switch address {
		case "192.0.2.1":
			return []string{"b.example.net.", "a.example.net.", "longer.example.net."}, nil
		case "2001:db8::1":
			return []string{"evil\x1b[2J.example.", "<b>.example.", "192.0.2.7", "good.example."}, nil
		}
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	if got := f.Name("192.0.2.1"); got != "" {
		t.Errorf("the first answer is %q, want none: nobody waits for name servers", got)
	}
	f.learns(t, "192.0.2.1", "a.example.net")
	f.learns(t, "::ffff:192.0.2.1", "a.example.net")
	f.learns(t, "2001:db8::1", "good.example")
	f.learns(t, "192.0.2.2", "")
	f.learns(t, "no address", "")
	if got := f.asked.Load(); got != 3 {
		t.Errorf("name servers were asked %d times, want 3: once for each address", got)
	}
}

func TestExpiry(t *testing.T) {
	f := newFixture(t)
	name, fault := "old.example.", error(nil)
	f.answer = func(string) ([]string, error) {
		if fault != nil {
			return nil, fault
		}
		return []string{name}, nil
	}
	f.learns(t, "192.0.2.1", "old.example")
	name = "new.example."
	f.learns(t, "192.0.2.1", "old.example")
	f.at = f.at.Add(keepName)
	f.learns(t, "192.0.2.1", "new.example")
	fault = &net.DNSError{Err: "timeout", IsTimeout: true}
	f.at = f.at.Add(keepName)
	f.learns(t, "192.0.2.1", "new.example") // name servers that do not answer take no name away
	fault = fmt.Errorf("wrapped: %w", &net.DNSError{IsNotFound: true})
	f.at = f.at.Add(keepNone)
	f.learns(t, "192.0.2.1", "")
}

func TestBounds(t *testing.T) {
	f := newFixture(t)
	f.answer = func(string) ([]string, error) { return nil, errors.New("refused") }
	for i := range most {
		f.known[address(i)] = entry{name: "n", expires: f.at.Add(time.Minute)}
	}
	f.learns(t, "2001:db8::1", "")
	if len(f.known) != most || f.asked.Load() != 0 {
		t.Errorf("%d addresses are kept, %d asked for; want %d, 0", len(f.known), f.asked.Load(), most)
	}
	f.at = f.at.Add(time.Hour)
	f.learns(t, "2001:db8::1", "")
	if len(f.known) != 1 || f.asked.Load() != 1 {
		t.Errorf("after they expired %d addresses are kept, %d asked for; want 1, 1", len(f.known), f.asked.Load())
	}
}

// TestStop: lookups end with the context, and a resolver that is off knows nothing.
func TestStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := New(ctx, func(ctx context.Context, _ string) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for i := range 3 * atOnce {
		r.Name(address(i).String())
	}
	cancel()
	r.tasks.Wait()
	var off *Resolver
	if off.Name("192.0.2.1") != "" {
		t.Error("a resolver that is off knows a name")
	}
}

func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// FuzzFirst: whatever the owner of an address answers, a name is short and has no control or markup characters.
func FuzzFirst(f *testing.F) {
	f.Add("a.example.", "<b>", "\x1b[31m")
	f.Add("", ".", "..")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		name := first([]string{a, b, c})
		if len(name) > 253 || strings.ContainsAny(name, "<>&\"' \t\r\n\x1b\x00") || !utf8.ValidString(name) {
			t.Errorf("name %q", name)
		}
		if again := first([]string{c, b, a}); again != name {
			t.Errorf("in another order it is %q, not %q", again, name)
		}
	})
}
